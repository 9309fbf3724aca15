-- Composed from promote.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] delayed
-- KEYS[9] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
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
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
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
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
end
if call('ZREM', KEYS[8], jobId) == 0 then return -3 end
local held = isHeld(KEYS[2], KEYS[9])
local line = waitList(base)
local newest = call('LINDEX', line, 0)
if newest and string.sub(newest, 1, 2) == '0:' then call('LPOP', line) end
makeReady(base, jobId, priorityOf(base .. jobId), 'LPUSH', held)
emit(KEYS[1], 'waiting', 'jobId', jobId, 'prev', 'delayed')
unlessWrongType(try('HSET', base .. jobId, 'delay', 0)) -- the next fetch drops a key that is not a hash
return 0
