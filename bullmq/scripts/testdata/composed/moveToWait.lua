-- Composed from moveToWait.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled
-- KEYS[2] events
-- KEYS[3] meta
-- KEYS[4] wait
-- KEYS[5] prioritized
-- KEYS[6] pc
-- KEYS[7] marker
-- KEYS[8] active
-- KEYS[9] limiter

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local token = ARGV[3]
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
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[1], jobId)
  return 0
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
  call('XADD', KEYS[2], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', KEYS[8], 1, jobId) == 1 then
  local priority = priorityOf(jobKey)
  if priority > 0 then
    call('ZADD', KEYS[5], priority * 4294967296, jobId)
  else
    makeReady(base, jobId, 0, 'RPUSH', isHeld(KEYS[3], KEYS[8]))
  end
  emitTrimmed(eventLimit(KEYS[3]), 'waiting', 'jobId', jobId, 'prev', 'active')
end
local left = call('PTTL', KEYS[9])
return left > 0 and left or 0
