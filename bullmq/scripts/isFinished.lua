--[[ isFinished: returns whether a job has finished, and its outcome.

     Arguments: base, jobId.
     Returns: {0} not yet, {1, returnvalue (JSON)} completed, {2, failedReason (text)} failed, {-1} no such job. ]]
--@args base jobId
--@keys completed failed
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return { -1 } end
if call('ZSCORE', completedKey, jobId) then return { 1, call('HGET', jobKey, 'returnvalue') } end
if call('ZSCORE', failedKey, jobId) then return { 2, call('HGET', jobKey, 'failedReason') } end
return { 0 }
