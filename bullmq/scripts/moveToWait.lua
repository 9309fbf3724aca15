--[[ moveToWait: sends a running job back to the front of its line; no attempt is used. A worker does it with a job
     that met a rate limit. BullMQ's name: moveJobFromActiveToWait.

     Arguments: base, jobId, token.
     Answer: ms until the rate limit ends, 0 without one.
     Errors: -1 no such job, -2 its lock is gone, -6 the lock is another's.
     Events: waiting, when the job was active. ]]
--@args base jobId token
--@keys active wait prioritized marker limiter meta events
--@use lock gate events ready sound
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end

if call('LREM', activeKey, 1, jobId) == 1 then
  local priority = priorityOf(jobKey)
  if priority > 0 then
    call('ZADD', prioritizedKey, priority * 4294967296, jobId)
  else
    ready(base, jobId, 0, 'RPUSH', held(metaKey, activeKey))
  end
  sayTrimmed(cap(metaKey), 'waiting', 'jobId', jobId, 'prev', 'active')
end
local left = call('PTTL', limiterKey)
return left > 0 and left or 0
