--[[ releaseParent: the end of a flow's insert: a parent that has no pending children, since all had completed before, goes
     on. BullMQ's name: releaseParentIfNoPendingDependencies.

     Arguments: queueKey (bull:orders), parentId, now (ms).
     Answer: 0. A parent that a child could not be attached to stays where it is.
     Events: of the parent waiting or delayed. ]]
--@args queueKey parentId now
--@use parent
local parentKey = queueKey .. ':' .. parentId
if call('HGET', parentKey, 'flowAttachmentFailed') then
  call('HDEL', parentKey, 'flowAttachmentFailed')
else
  letGoIfLast(queueKey .. ':', parentKey, parentId, now)
end
return 0
