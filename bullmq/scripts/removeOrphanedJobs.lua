--[[ removeOrphanedJobs: of some ids, those whose job stands in no state of the queue.

     BullMQ looks for ids among wake-ups (their names are 0 and 1) and schedulers too; what it finds there it keeps, and so
     does this, until they are gone.

     Arguments: base, delete '1' to remove what there is of them, then ids.
     Answer: the orphans. ]]
--@args base delete ...
--@keys marker repeat
--@use drop stands
local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not (stands(base, jobId) or call('ZSCORE', markerKey, jobId) or call('ZSCORE', repeatKey, jobId)) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      dropJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
