--[[ deleteJob deletes the keys of a job: its hash, its logs and the records of its children. The lock is kept.
     Returns the number of keys deleted. README.md lists the other functions that remove jobs. ]]
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
