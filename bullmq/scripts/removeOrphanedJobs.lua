--[[ removeOrphanedJobs: of some ids, those whose job stands in no state of the queue.

     Arguments: base, delete '1' to remove what there is of them, then ids.
     Answer: the orphans. ]]
--@args base delete ...
--@keys wait paused active prioritized delayed waiting-children completed failed stalled
--@use drop
local lists = { waitKey, pausedKey, activeKey }
local sets = { prioritizedKey, delayedKey, waitingChildrenKey, completedKey, failedKey }

local function stands(jobId)
  local kind = call('TYPE', base .. jobId).ok
  if kind ~= 'hash' and kind ~= 'none' then return true end -- no job: something that an old client has left
  for i = 1, #sets do
    if call('ZSCORE', sets[i], jobId) then return true end
  end
  for i = 1, #lists do
    if call('LPOS', lists[i], jobId) then return true end
  end
  return call('SISMEMBER', stalledKey, jobId) == 1
end

local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not stands(jobId) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      dropJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
