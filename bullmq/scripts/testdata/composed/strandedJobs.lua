-- Composed from strandedJobs.lua and its parts. Regenerate with make composed.
-- KEYS[1] wait
-- KEYS[2] paused
-- KEYS[3] active
-- KEYS[4] prioritized
-- KEYS[5] delayed
-- KEYS[6] waiting-children
-- KEYS[7] completed
-- KEYS[8] failed
-- KEYS[9] stalled
-- KEYS[10] events
-- KEYS[11] meta
-- KEYS[12] pc
-- KEYS[13] marker

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local requeue = ARGV[2]
local rest = 3
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
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function eventLimit(metaAt)
  return eventLimitOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function emitTrimmed(limit, event, ...)
  call('XADD', KEYS[10], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function isHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isMaxed(set[2], activeAt)
end
local function waitList(queue)
  return queue .. 'wait'
end
local function signalReady(markerAt, held)
  if not held then call('ZADD', markerAt, '0', '0') end
end
local function priorityScore(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end
local function makeReady(queue, jobId, priority, push, held)
  if priority == 0 then
    call(push, waitList(queue), jobId)
  else
    call('ZADD', queue .. 'prioritized', priorityScore(queue .. 'pc', priority), jobId)
  end
  signalReady(queue .. 'marker', held)
end
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local held = isHeld(KEYS[11], KEYS[3])
local found = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  local jobKey = base .. jobId
  if not isInAnyState(base, jobId) and call('EXISTS', jobKey .. ':lock') == 0 then
    local job = call('HMGET', jobKey, 'name', 'data', 'timestamp', 'priority', 'finishedOn')
    if job[1] and job[2] and job[3] and not job[5] then
      found[#found + 1] = jobId
      found[#found + 1] = job[3]
      if requeue == '1' then
        makeReady(base, jobId, toNumber(job[4]), 'RPUSH', held)
        listed[jobId] = true
        emitTrimmed(eventLimit(KEYS[11]), 'waiting', 'jobId', jobId)
      end
    end
  end
end
return found
