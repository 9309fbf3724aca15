--[[ moveToDelayed: moves an active job to delayed and optionally fetches the next one.

     Arguments: base, now (ms), jobId, token, delay (ms), free ('1' if this consumes no attempt), fetch ('1' to fetch the next
     job); lockMs, name, limitMax and limitMs as for moveToActive; then field, value … to set.
     Returns: 0, or the reply of moveToActive with the next job.
     Errors: -1 no such job, -2 it has no lock, -3 it isn't active (its lock is released then, and the fields are set),
     -6 the lock has another token.
     Events: delayed, then those of moveToActive. ]]
--@args base now jobId token delay free fetch lockMs name limitMax limitMs ...
--@keys active delayed meta events marker
--@use lock fields events delay fetch worker safeRead
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end

local score, due = delayedScore(now, tonumber(delay))
if free ~= '1' then call('HSET', jobKey, 'atm', toInteger(call('HGET', jobKey, 'atm')) + 1) end
call('HSET', jobKey, 'delay', delay)
local limit = eventLimit(metaKey)
call('ZADD', delayedKey, score, jobId)
emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)

local nextJob = fetch == '1' and fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { token })
if nextJob and nextJob[1][1] then return nextJob end
signalDelayed(markerKey, delayedKey)
return 0
