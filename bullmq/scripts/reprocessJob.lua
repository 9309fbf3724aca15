--[[ reprocessJob: sends a job that has ended back to run again.

     Arguments: base, jobId, state completed or failed, field: the result's, returnvalue or failedReason, push: LPUSH (last
     in line) or RPUSH (next to run), resetMade '1', resetStarted '1': forget the attempts made, the starts.
     Answer: 1. Errors: -1 no such job, -3 it isn't in that state.
     Events: waiting. ]]
--@args base jobId state field push resetMade resetStarted
--@keys completed failed active meta marker events wait prioritized pc
--@use gate ready events family sound
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
if call('ZREM', base .. state, jobId) == 0 then return -3 end
call('HDEL', jobKey, 'finishedOn', 'processedOn', field)
if resetMade == '1' then call('HDEL', jobKey, 'atm') end
if resetStarted == '1' then call('HDEL', jobKey, 'ats') end
local priority = priorityOf(jobKey)
priority = 0 --@v5
ready(base, jobId, priority, push, held(metaKey, activeKey))
pendAgain(jobKey, state)
sayTrimmed(cap(metaKey), 'waiting', 'jobId', jobId, 'prev', state)
return 1
