--[[ releaseParent: runs after all jobs of a flow were added. It releases a parent that has no pending children, because all
     its children had completed before (BullMQ: releaseParentIfNoPendingDependencies). It does not release a parent to
     which a child could not be attached.

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
