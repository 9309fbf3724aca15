--[[ stateOf returns the state of a job: completed, failed, delayed, prioritized, active, waiting, waiting-children or unknown.
     It looks in the sets first, because the time to search a list is proportional to its length. ]]
--@keys completed failed delayed prioritized active wait paused waiting-children
local function stateOf(jobId)
  local function sorted(set) return call('ZSCORE', set, jobId) end
  local function listed(list) return call('LPOS', list, jobId) end
  if sorted(completedKey) then return 'completed' end
  if sorted(failedKey) then return 'failed' end
  if sorted(delayedKey) then return 'delayed' end
  if sorted(prioritizedKey) then return 'prioritized' end
  if listed(activeKey) then return 'active' end
  if listed(waitKey) or listed(pausedKey) then return 'waiting' end
  if sorted(waitingChildrenKey) then return 'waiting-children' end
  return 'unknown'
end
