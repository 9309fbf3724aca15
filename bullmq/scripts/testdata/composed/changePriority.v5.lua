-- Composed from changePriority.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local priority = ARGV[3]
local lifo = ARGV[4]
local function isFull(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function held(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isFull(set[2], activeAt)
end
local function lineAt(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
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
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
priority = tonumber(priority)
local isHeld = held(KEYS[2], KEYS[8])
if call('ZREM', KEYS[4], jobId) == 1 or call('LREM', lineAt(base), -1, jobId) == 1 then
  if priority ~= 0 and lifo == '1' then
    call('ZADD', KEYS[4], priority * 4294967296, jobId)
  else
    ready(base, jobId, priority, lifo == '1' and 'RPUSH' or 'LPUSH', isHeld)
  end
end
call('HSET', jobKey, 'priority', priority)
return 0
