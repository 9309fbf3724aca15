--[[ removeChildDependency: a child that hasn't ended stops being one; a parent that waited for it alone goes on.

     Arguments: base, jobId.
     Answer: 0 done, 1 it has no parent, or isn't among the pending children.
     Errors: -1 no such job, -5 no such parent.
     Events: of the parent waiting. ]]
--@args base jobId
--@use parent
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local parentKey = call('HGET', jobKey, 'parentKey')
if not parentKey then return 1 end
if call('EXISTS', parentKey) == 0 then return -5 end
if not unlink(jobKey, parentKey, false, base) then return 1 end
call('HDEL', jobKey, 'parentKey', 'parent')
return 0
