--[[ stands: does a job stand in any state of the queue, or is it none that this queue knows how to put anywhere? ]]
--@keys wait paused active prioritized delayed waiting-children completed failed stalled
local function stands(base, jobId)
  local kind = call('TYPE', base .. jobId).ok
  if kind ~= 'hash' and kind ~= 'none' then return true end -- no job: something that an old client has left
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
