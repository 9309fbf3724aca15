--[[ reprocessJob: moves a finished job back to wait.

     Arguments: base, jobId, state (completed or failed), field (its result: returnvalue or failedReason), push (LPUSH to
     be fetched last, RPUSH to be fetched next), resetMade and resetStarted ('1' to reset the attempts made, the starts).
     Returns: 1. Errors: -1 no such job, -3 it isn't in that state.
     Events: waiting. ]]
--@args base jobId state field push resetMade resetStarted
--@keys completed failed active meta marker events wait prioritized pc
--@use held ready events repend safeRead
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
if call('ZREM', base .. state, jobId) == 0 then return -3 end
call('HDEL', jobKey, 'finishedOn', 'processedOn', field)
if resetMade == '1' then call('HDEL', jobKey, 'atm') end
if resetStarted == '1' then call('HDEL', jobKey, 'ats') end
local priority = priorityOf(jobKey)
priority = 0 --@v5
makeReady(base, jobId, priority, push, isHeld(metaKey, activeKey))
repend(jobKey, state)
emitTrimmed(eventLimit(metaKey), 'waiting', 'jobId', jobId, 'prev', state)
return 1
