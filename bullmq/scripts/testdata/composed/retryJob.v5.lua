-- Composed from retryJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] delayed
-- KEYS[9] stalled
-- KEYS[10] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local jobId = ARGV[3]
local token = ARGV[4]
local push = ARGV[5]
local rest = 6
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function eventLimit(metaAt)
  return eventLimitOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function emitTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
local function toInteger(text)
  return math.floor(math.max(math.min(toNumber(text), 9007199254740991), -9007199254740991))
end
local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
end
local function promoteJobs(base, ids, held)
  call('ZREM', KEYS[8], unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', waitList(base), id)
    else
      call('ZADD', KEYS[4], priorityScore(KEYS[5], priority), id)
    end
    emit(KEYS[1], 'waiting', 'jobId', id, 'prev', 'delayed')
    unlessWrongType(try('HSET', base .. id, 'delay', 0)) -- the next fetch drops a key that is not a hash
  end
  signalReady(KEYS[6], held)
end
local function promoteDelayed(base, now, held)
  local due = call('ZRANGEBYSCORE', KEYS[8], '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promoteJobs(base, due, held) end
end
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[9], jobId)
  return 0
end
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
end
promoteDelayed(base, now, isHeld(KEYS[2], KEYS[10]))
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', KEYS[10], -1, jobId) == 0 then return -3 end
local was = call('HMGET', jobKey, 'priority', 'atm')
makeReady(base, jobId, toNumber(was[1]), push, isHeld(KEYS[2], KEYS[10]))
call('HSET', jobKey, 'atm', toInteger(was[2]) + 1)
emitTrimmed(eventLimit(KEYS[2]), 'waiting', 'jobId', jobId, 'prev', 'active')
return 0
