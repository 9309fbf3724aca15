--[[ deleteJob deletes the keys of a job: its hash, its logs and the records of its children. The lock stays.
     Returns how many keys there were. README.md lists the other depths of removal. ]]
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
