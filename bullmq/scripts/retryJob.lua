--[[ retryJob: gives a running job that failed another attempt at once. Delayed jobs that are due go first.

     Arguments: base, now (ms), jobId, token, push: LPUSH (last in line) or RPUSH (next to run), then field, value … to set.
     Answer: 0. Errors: -1 no such job, -2 its lock is gone, -3 it isn't active (its lock is given back then, the fields
     set), -6 the lock is another's.
     Events: waiting. ]]
--@args base now jobId token push ...
--@keys active meta events
--@use gate events promote lock fields ready sound
promoteDue(base, now, held(metaKey, activeKey))
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end

local was = call('HMGET', jobKey, 'priority', 'atm')
ready(base, jobId, numberOf(was[1]), push, held(metaKey, activeKey))
call('HSET', jobKey, 'atm', wholeOf(was[2]) + 1)
sayTrimmed(cap(metaKey), 'waiting', 'jobId', jobId, 'prev', 'active')
return 0
