--[[ changeDelay: changes the delay of a delayed job. The new delay counts from now.

     Arguments: base, jobId, now (ms), delay (ms).
     Returns: 0. Errors: -1 no such job, -3 it isn't delayed.
     Events: delayed. ]]
--@args base jobId now delay
--@keys delayed meta marker events
--@use delay events marker
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local score, due = delayedScore(now, tonumber(delay))
if call('ZREM', delayedKey, jobId) == 0 then return -3 end
call('HSET', jobKey, 'delay', delay)
call('ZADD', delayedKey, score, jobId)
emitTrimmed(eventLimit(metaKey), 'delayed', 'jobId', jobId, 'delay', due)
signalDelayed(markerKey, delayedKey)
return 0
