--[[ removeOrphanedJobs: finds orphans among some ids: jobs that are in no state of the queue. Like BullMQ, it treats the
     marker (with the members 0 and 1) and the schedulers as states too, so it keeps jobs with these ids.

     Arguments: base, delete ('1' to delete the keys of the orphans), then ids.
     Returns: the orphans. ]]
--@args base delete ...
--@keys marker repeat
--@use delete isInAnyState
local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not (isInAnyState(base, jobId) or call('ZSCORE', markerKey, jobId) or call('ZSCORE', repeatKey, jobId)) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      deleteJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
