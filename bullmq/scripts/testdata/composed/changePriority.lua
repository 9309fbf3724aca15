-- Composed from changePriority.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local priority = ARGV[3]
local lifo = ARGV[4]
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
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
priority = tonumber(priority)
local held = isHeld(KEYS[2], KEYS[7])
if call('ZREM', KEYS[4], jobId) == 1 or call('LREM', waitList(base), -1, jobId) == 1 then
  if priority ~= 0 and lifo == '1' then
    call('ZADD', KEYS[4], priority * 4294967296, jobId)
  else
    makeReady(base, jobId, priority, lifo == '1' and 'RPUSH' or 'LPUSH', held)
  end
end
call('HSET', jobKey, 'priority', priority)
return 0
