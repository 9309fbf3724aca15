--[[ releaseParent: releases a parent at the end of adding a flow if it has no pending children, because all of them were
     already completed (BullMQ: releaseParentIfNoPendingDependencies). A parent to which a child could not be attached
     is not released.

     Arguments: queueKey (bull:orders), parentId, now (ms).
     Returns: 0.
     Events: for the parent waiting or delayed. ]]
--@args queueKey parentId now
--@use parent
local parentKey = queueKey .. ':' .. parentId
if call('HGET', parentKey, 'flowAttachmentFailed') then
  call('HDEL', parentKey, 'flowAttachmentFailed')
else
  releaseParentIfReady(queueKey .. ':', parentKey, parentId, now)
end
return 0
