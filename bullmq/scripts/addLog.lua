--[[ addLog: adds a row to the log of a job.

     Arguments: base, jobId, row, keep (how many rows to keep, or '').
     Returns: the number of rows. Errors: -1 no such job. ]]
--@args base jobId row keep
--@use text
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local rows = call('RPUSH', jobKey .. ':logs', row)
if not given(keep) then return rows end
call('LTRIM', jobKey .. ':logs', -tonumber(keep), -1)
return math.min(tonumber(keep), rows)
