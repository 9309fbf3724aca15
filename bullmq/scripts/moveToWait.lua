--[[ moveToWait: moves an active job back to the front of wait or of its priority, for instance because of a rate limit. That
     uses no attempt (BullMQ: moveJobFromActiveToWait).

     Arguments: base, jobId, token.
     Returns: the ms for which the rate limit is still in effect, or 0.
     Errors: -1 no such job, -2 it has no lock, -6 the lock has another token.
     Events: waiting, if the job was active. ]]
--@args base jobId token
--@keys active wait prioritized marker limiter meta events
--@use lock held events ready safeRead
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end

if call('LREM', activeKey, 1, jobId) == 1 then
  local priority = priorityOf(jobKey)
  if priority > 0 then
    call('ZADD', prioritizedKey, priority * 4294967296, jobId)
  else
    makeReady(base, jobId, 0, 'RPUSH', isHeld(metaKey, activeKey))
  end
  emitTrimmed(eventLimit(metaKey), 'waiting', 'jobId', jobId, 'prev', 'active')
end
local left = call('PTTL', limiterKey)
return left > 0 and left or 0
