--[[ retryJob: moves an active job that failed back to wait for another attempt. Before, it promotes the delayed jobs that are
     due.

     Arguments: base, now (ms), jobId, token, push (LPUSH to be fetched last, RPUSH to be fetched next), then field,
     value … to set.
     Returns: 0.
     Errors: -1 no such job, -2 it has no lock, -3 it isn't active (its lock is released then, and the fields are set),
     -6 the lock has another token.
     Events: waiting. ]]
--@args base now jobId token push ...
--@keys active meta events
--@use held events promote lock fields ready safeRead
promoteDelayed(base, now, isHeld(metaKey, activeKey))
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end

local was = call('HMGET', jobKey, 'priority', 'atm')
makeReady(base, jobId, toNumber(was[1]), push, isHeld(metaKey, activeKey))
call('HSET', jobKey, 'atm', toInteger(was[2]) + 1)
emitTrimmed(eventLimit(metaKey), 'waiting', 'jobId', jobId, 'prev', 'active')
return 0
