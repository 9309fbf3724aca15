--[[ updateProgress: sets the progress of a job.

     Arguments: base, jobId, progress (JSON).
     Returns: 0. Errors: -1 no such job.
     Events: progress. ]]
--@args base jobId progress
--@keys events meta
--@use events
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
call('HSET', jobKey, 'progress', progress)
emitTrimmed(eventLimit(metaKey), 'progress', 'jobId', jobId, 'data', progress)
return 0
