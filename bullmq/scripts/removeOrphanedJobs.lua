--[[ removeOrphanedJobs: of some ids, those whose job stands in no state of the queue.

     Arguments: base, delete '1' to remove what there is of them, then ids.
     Answer: the orphans. ]]
--@args base delete ...
--@use drop stands
local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not stands(base, jobId) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      dropJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
