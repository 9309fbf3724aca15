--[[ isInAnyState reports whether a job is in a state of its queue. For a key that is not a hash, and thus not a job, it returns
     true as well. ]]
--@keys wait paused active prioritized delayed waiting-children completed failed stalled
local listed -- the jobs of the lists; LPOS for each of many ids would read a long list as often
local function isListed(jobId)
  if not listed then
    listed = {}
    local lists = { waitKey, pausedKey, activeKey }
    for i = 1, #lists do
      local ids = call('LRANGE', lists[i], 0, -1)
      for j = 1, #ids do
        listed[ids[j]] = true
      end
    end
  end
  return listed[jobId]
end

local function isInAnyState(base, jobId)
  local kind = call('TYPE', base .. jobId).ok
  if kind ~= 'hash' and kind ~= 'none' then return true end -- a key of old clients
  local sets = { prioritizedKey, delayedKey, waitingChildrenKey, completedKey, failedKey }
  for i = 1, #sets do
    if call('ZSCORE', sets[i], jobId) then return true end
  end
  if isListed(jobId) then return true end
  return call('SISMEMBER', stalledKey, jobId) == 1
end
