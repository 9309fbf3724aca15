--[[ moveToWaitingChildren: moves an active job to waiting-children if it has a pending child or, with childKey, if that child
     is pending.

     Arguments: base, jobId, now (ms), token, childKey (the child to wait for, or '').
     Returns: 0 if the job waits, 1 if there is nothing to wait for, so that the job stays active.
     Errors: -1 no such job, -2 it has no lock, -3 it isn't active (its lock is released then), -6 the lock has another
     token, -9 a child has failed.
     Events: waiting-children. ]]
--@args base jobId now token childKey
--@keys active waiting-children events stalled
--@use text lock events
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
if call('ZCARD', jobKey .. ':unsuccessful') > 0 then return -9 end
local pending
if given(childKey) then
  pending = call('SISMEMBER', jobKey .. ':dependencies', childKey)
else
  pending = call('SCARD', jobKey .. ':dependencies')
end
if pending == 0 then return 1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end
call('ZADD', waitingChildrenKey, now, jobId)
emit(eventsKey, 'waiting-children', 'jobId', jobId, 'prev', 'active')
return 0
