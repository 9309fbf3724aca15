--[[ dropJob: deletes a job's hash and what hangs on it (logs and the records of its children); the lock stays. ]]
local function dropJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
