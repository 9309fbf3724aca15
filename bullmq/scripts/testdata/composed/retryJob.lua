-- Composed from retryJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] delayed
-- KEYS[8] stalled
-- KEYS[9] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local jobId = ARGV[3]
local token = ARGV[4]
local push = ARGV[5]
local rest = 6
local function capOf(metaAt, kept)
  if kept and string.find(kept, '^%d+$') then return kept end
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function cap(metaAt)
  return capOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function say(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function sayTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
local function wholeOf(text)
  return math.floor(math.max(math.min(numberOf(text), 9007199254740991), -9007199254740991))
end
local function priorityOf(jobKey)
  return numberOf(orNothing(try('HGET', jobKey, 'priority')))
end
local function promote(base, ids, isHeld)
  call('ZREM', KEYS[7], unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', lineAt(base), id)
    else
      call('ZADD', KEYS[4], rank(KEYS[5], priority), id)
    end
    say(KEYS[1], 'waiting', 'jobId', id, 'prev', 'delayed')
    orNothing(try('HSET', base .. id, 'delay', 0)) -- what is no hash goes when it is taken
  end
  wake(KEYS[6], isHeld)
end
local function promoteDue(base, now, isHeld)
  local due = call('ZRANGEBYSCORE', KEYS[7], '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promote(base, due, isHeld) end
end
local function unlock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = orNothing(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[8], jobId)
  return 0
end
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
end
promoteDue(base, now, held(KEYS[2], KEYS[9]))
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = unlock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', KEYS[9], -1, jobId) == 0 then return -3 end
local was = call('HMGET', jobKey, 'priority', 'atm')
ready(base, jobId, numberOf(was[1]), push, held(KEYS[2], KEYS[9]))
call('HSET', jobKey, 'atm', wholeOf(was[2]) + 1)
sayTrimmed(cap(KEYS[2]), 'waiting', 'jobId', jobId, 'prev', 'active')
return 0
