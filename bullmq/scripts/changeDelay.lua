--[[ changeDelay: gives a delayed job another delay, counted from now.

     Arguments: base, jobId, now (ms), delay (ms).
     Answer: 0. Errors: -1 no such job, -3 it isn't delayed.
     Events: delayed. ]]
--@args base jobId now delay
--@keys delayed meta marker events
--@use delay events marker
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local score, due = slot(now, tonumber(delay))
if call('ZREM', delayedKey, jobId) == 0 then return -3 end
call('HSET', jobKey, 'delay', delay)
call('ZADD', delayedKey, score, jobId)
sayTrimmed(cap(metaKey), 'delayed', 'jobId', jobId, 'delay', due)
wakeAt(markerKey, delayedKey)
return 0
