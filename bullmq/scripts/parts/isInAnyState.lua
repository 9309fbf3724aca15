--[[ isInAnyState reports whether a job is in a state of its queue. For a key that is not a hash, and thus not a job, it returns
     true as well. ]]
--@keys wait paused active prioritized delayed waiting-children completed failed stalled
local function isInAnyState(base, jobId)
  local kind = call('TYPE', base .. jobId).ok
  if kind ~= 'hash' and kind ~= 'none' then return true end -- a key of old clients
  local sets = { prioritizedKey, delayedKey, waitingChildrenKey, completedKey, failedKey }
  for i = 1, #sets do
    if call('ZSCORE', sets[i], jobId) then return true end
  end
  local lists = { waitKey, pausedKey, activeKey }
  for i = 1, #lists do
    if call('LPOS', lists[i], jobId) then return true end
  end
  return call('SISMEMBER', stalledKey, jobId) == 1
end
