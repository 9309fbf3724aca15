--[[ releaseParent: releases a parent at the end of a flow's insert if it has no pending children, since all of them had
     completed before (BullMQ: releaseParentIfNoPendingDependencies). A parent to which a child could not be attached
     stays where it is.

     Arguments: queueKey (bull:orders), parentId, now (ms).
     Returns: 0.
     Events: of the parent waiting or delayed. ]]
--@args queueKey parentId now
--@use parent
local parentKey = queueKey .. ':' .. parentId
if call('HGET', parentKey, 'flowAttachmentFailed') then
  call('HDEL', parentKey, 'flowAttachmentFailed')
else
  releaseParentIfReady(queueKey .. ':', parentKey, parentId, now)
end
return 0
