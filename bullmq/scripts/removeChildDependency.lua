--[[ removeChildDependency: detaches a pending child from its parent. A parent without another pending child is released.

     Arguments: base, jobId.
     Returns: 0, or 1 if it has no parent or isn't one of the pending children.
     Errors: -1 no such job, -5 no such parent.
     Events: for the parent waiting. ]]
--@args base jobId
--@use parent
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local parentKey = call('HGET', jobKey, 'parentKey')
if not parentKey then return 1 end
if call('EXISTS', parentKey) == 0 then return -5 end
if not detachChild(jobKey, parentKey, false, base) then return 1 end
call('HDEL', jobKey, 'parentKey', 'parent')
return 0
