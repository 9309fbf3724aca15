--[[ removeOrphanedJobs: finds orphans among some ids: jobs that are in no state of the queue. Like BullMQ, it treats the
     marker (with the members 0 and 1) and the schedulers as states too, so it keeps jobs with these ids. A job that has no
     key anymore is no orphan: it was removed since its keys were scanned.

     Arguments: base, delete ('1' to delete the keys of the orphans), then ids.
     Returns: the orphans. ]]
--@args base delete ...
--@keys marker repeat
--@use delete isInAnyState
local function hasKeys(jobKey)
  return call('EXISTS', jobKey, jobKey .. ':lock', jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful') > 0
end

local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not (isInAnyState(base, jobId) or call('ZSCORE', markerKey, jobId) or call('ZSCORE', repeatKey, jobId))
    and hasKeys(base .. jobId) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      deleteJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
