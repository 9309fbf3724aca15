-- Composed from moveToWait.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled
-- KEYS[2] events
-- KEYS[3] meta
-- KEYS[4] wait
-- KEYS[5] prioritized
-- KEYS[6] pc
-- KEYS[7] marker
-- KEYS[8] paused
-- KEYS[9] active
-- KEYS[10] limiter

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local token = ARGV[3]
local function orNothing(answer)
  local err = type(answer) == 'table' and answer.err
  if not err then return answer end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function numberOf(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local function priorityOf(jobKey)
  return numberOf(orNothing(try('HGET', jobKey, 'priority')))
end
local function unlock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = orNothing(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[1], jobId)
  return 0
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
  call('XADD', KEYS[2], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', KEYS[9], 1, jobId) == 1 then
  local priority = priorityOf(jobKey)
  if priority > 0 then
    call('ZADD', KEYS[5], priority * 4294967296, jobId)
  else
    ready(base, jobId, 0, 'RPUSH', held(KEYS[3], KEYS[9]))
  end
  sayTrimmed(cap(KEYS[3]), 'waiting', 'jobId', jobId, 'prev', 'active')
end
local left = call('PTTL', KEYS[10])
return left > 0 and left or 0
