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
local putBack = ARGV[2]
local rest = 3
local function stands(base, jobId)
  local kind = call('TYPE', base .. jobId).ok
  if kind ~= 'hash' and kind ~= 'none' then return true end -- no job: something that an old client has left
  local sets = { KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8] }
  for i = 1, #sets do
    if call('ZSCORE', sets[i], jobId) then return true end
  end
  local lists = { KEYS[1], KEYS[2], KEYS[3] }
  for i = 1, #lists do
    if call('LPOS', lists[i], jobId) then return true end
  end
  return call('SISMEMBER', KEYS[9], jobId) == 1
end
local function capOf(metaAt, kept)
  if kept and string.find(kept, '^%d+$') then return kept end
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function cap(metaAt)
  return capOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function sayTrimmed(limit, event, ...)
  call('XADD', KEYS[10], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local function isFull(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function held(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isFull(set[2], activeAt)
end
local function lineAt(queue)
  return queue .. 'wait'
end
local function wake(markerAt, isHeld)
  if not isHeld then call('ZADD', markerAt, '0', '0') end
end
local function rank(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end
local function ready(queue, jobId, priority, push, isHeld)
  if priority == 0 then
    call(push, lineAt(queue), jobId)
  else
    call('ZADD', queue .. 'prioritized', rank(queue .. 'pc', priority), jobId)
  end
  wake(queue .. 'marker', isHeld)
end
local function numberOf(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local isHeld = held(KEYS[11], KEYS[3])
local found = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  local jobKey = base .. jobId
  if not stands(base, jobId) and call('EXISTS', jobKey .. ':lock') == 0 then
    local job = call('HMGET', jobKey, 'name', 'data', 'timestamp', 'priority', 'finishedOn')
    if job[1] and job[2] and job[3] and not job[5] then
      found[#found + 1] = jobId
      found[#found + 1] = job[3]
      if putBack == '1' then
        ready(base, jobId, numberOf(job[4]), 'RPUSH', isHeld)
        sayTrimmed(cap(KEYS[11]), 'waiting', 'jobId', jobId)
      end
    end
  end
end
return found
