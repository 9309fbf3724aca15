--[[ updateData: replaces the data of a job.

     Arguments: base, jobId, data (JSON).
     Returns: 0. Errors: -1 no such job. ]]
--@args base jobId data
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
call('HSET', jobKey, 'data', data)
return 0
