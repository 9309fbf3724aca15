--[[ moveToWaitingChildren: a running job waits until its pending children, or one of them, have ended.

     Arguments: base, jobId, now (ms), token, childKey: the one to wait for or ''.
     Answer: 0 it waits, 1 there is nothing to wait for and it goes on running.
     Errors: -1 no such job, -2 its lock is gone, -3 it isn't active (its lock is given back then),
     -6 the lock is another's, -9 a child has failed.
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
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end
call('ZADD', waitingChildrenKey, now, jobId)
say(eventsKey, 'waiting-children', 'jobId', jobId, 'prev', 'active')
return 0
