--[[ moveToDelayed: sends a running job back to run again after a delay, and, when asked, takes the next one.

     Arguments: base, now (ms), jobId, token, delay (ms), free '1' when this costs no attempt, fetch '1' to take the next
     job, lockMs, name, limitMax, limitMs as for moveToActive; then field, value … to set.
     Answer: 0, or {{jobId, hash}, 0, 0, now} of the next job.
     Errors: -1 no such job, -2 its lock is gone, -3 it isn't active (its lock is given back then, the fields set),
     -6 the lock is another's.
     Events: delayed, then those of moveToActive. ]]
--@args base now jobId token delay free fetch lockMs name limitMax limitMs ...
--@keys active delayed meta events marker
--@use lock fields events delay take worker sound
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end

local score, due = slot(now, tonumber(delay))
if free ~= '1' then call('HSET', jobKey, 'atm', wholeOf(call('HGET', jobKey, 'atm')) + 1) end
call('HSET', jobKey, 'delay', delay)
local limit = cap(metaKey)
call('ZADD', delayedKey, score, jobId)
sayTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)

local nextJob = fetch == '1' and take(base, now, workerOf(lockMs, name, limitMax, limitMs), { token })
if nextJob and nextJob[1][1] then return nextJob end
wakeAt(markerKey, delayedKey)
return 0
