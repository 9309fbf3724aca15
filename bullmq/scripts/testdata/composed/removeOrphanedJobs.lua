-- Composed from removeOrphanedJobs.lua and its parts. Regenerate with make composed.
-- KEYS[1] wait
-- KEYS[2] paused
-- KEYS[3] active
-- KEYS[4] prioritized
-- KEYS[5] delayed
-- KEYS[6] waiting-children
-- KEYS[7] completed
-- KEYS[8] failed
-- KEYS[9] stalled
-- KEYS[10] marker
-- KEYS[11] repeat

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local delete = ARGV[2]
local rest = 3
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
local listed -- the jobs of the lists; LPOS for each of many ids would read a long list as often
local function isListed(jobId)
  if not listed then
    listed = {}
    local lists = { KEYS[1], KEYS[2], KEYS[3] }
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
  local sets = { KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8] }
  for i = 1, #sets do
    if call('ZSCORE', sets[i], jobId) then return true end
  end
  if isListed(jobId) then return true end
  return call('SISMEMBER', KEYS[9], jobId) == 1
end
local function hasKeys(jobKey)
  return call('EXISTS', jobKey, jobKey .. ':lock', jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful') > 0
end
local orphans = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  if not (isInAnyState(base, jobId) or call('ZSCORE', KEYS[10], jobId) or call('ZSCORE', KEYS[11], jobId))
    and hasKeys(base .. jobId) then
    orphans[#orphans + 1] = jobId
    if delete == '1' then
      deleteJob(base .. jobId)
      call('DEL', base .. jobId .. ':lock')
    end
  end
end
return orphans
