-- Composed from moveStalledJobsOf.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled-check, of the queue in use
-- KEYS[2] events, of the queue in use
-- KEYS[3] meta, of the queue in use
-- KEYS[4] wait, of the queue in use
-- KEYS[5] prioritized, of the queue in use
-- KEYS[6] pc, of the queue in use
-- KEYS[7] marker, of the queue in use
-- KEYS[8] paused, of the queue in use
-- KEYS[9] stalled, of the queue in use
-- KEYS[10] active, of the queue in use
-- KEYS[11] repeat, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'stalled-check', 'events', 'meta', 'wait', 'prioritized', 'pc', 'marker', 'paused', 'stalled', 'active', 'repeat' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'stalled-check', nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }, others)
    keysOf[n] = KEYS
  end
  return base
end
local now = ARGV[1]
local maxStalled = ARGV[2]
local checkMs = ARGV[3]
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
local function trimEvents()
  call('XTRIM', KEYS[2], 'MAXLEN', '~', eventLimit(KEYS[3]))
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
local function isScheduled(jobKey)
  local scheduler = unlessWrongType(try('HGET', jobKey, 'rjk'))
  return scheduler
    and (call('EXISTS', KEYS[11] .. ':' .. scheduler) == 1 or call('ZSCORE', KEYS[11], scheduler))
end
local function requeueStalled(base, now, maxStalled, checkMs)
  if call('EXISTS', KEYS[1]) == 1 then return {} end
  call('SET', KEYS[1], now, 'PX', checkMs)
  trimEvents()
  local moved = {}
  local marked = call('SMEMBERS', KEYS[9])
  if #marked > 0 then call('DEL', KEYS[9]) end
  for i = 1, #marked do
    local jobId = marked[i]
    local jobKey = base .. jobId
    if string.sub(jobId, 1, 2) == '0:' then
      call('LREM', KEYS[10], 1, jobId)
    elseif call('EXISTS', jobKey .. ':lock') == 0 and call('LREM', KEYS[10], 1, jobId) == 1 then
      local stalled = toInteger(unlessWrongType(try('HGET', jobKey, 'stc'))) + 1
      unlessWrongType(try('HSET', jobKey, 'stc', stalled))
      if stalled > tonumber(maxStalled) and not isScheduled(jobKey) then
        unlessWrongType(try('HSET', jobKey, 'defa', 'job stalled more than allowable limit'))
      end
      makeReady(base, jobId, 0, 'RPUSH', isHeld(KEYS[3], KEYS[10]))
      emit(KEYS[2], 'waiting', 'jobId', jobId, 'prev', 'active')
      emit(KEYS[2], 'stalled', 'jobId', jobId)
      moved[#moved + 1] = jobId
    end
  end
  local running = call('LRANGE', KEYS[10], 0, -1)
  for from = 1, #running, 7000 do
    call('SADD', KEYS[9], unpack(running, from, math.min(from + 6999, #running)))
  end
  return moved
end
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
local moved, _ = {}, nil
for n = 1, #queues - 1 do
  _, moved[n] = orText(pcall(requeueStalled, useQueue(n), now, maxStalled, checkMs))
end
return moved
