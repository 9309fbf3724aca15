-- Composed from moveStalledJobsToWait.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] stalled
-- KEYS[9] active
-- KEYS[10] stalled-check
-- KEYS[11] repeat

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local maxStalled = ARGV[3]
local checkMs = ARGV[4]
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
  call('XTRIM', KEYS[1], 'MAXLEN', '~', eventLimit(KEYS[2]))
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
  if call('EXISTS', KEYS[10]) == 1 then return {} end
  call('SET', KEYS[10], now, 'PX', checkMs)
  trimEvents()
  local moved = {}
  local marked = call('SMEMBERS', KEYS[8])
  if #marked > 0 then call('DEL', KEYS[8]) end
  for i = 1, #marked do
    local jobId = marked[i]
    local jobKey = base .. jobId
    if string.sub(jobId, 1, 2) == '0:' then
      call('LREM', KEYS[9], 1, jobId)
    elseif call('EXISTS', jobKey .. ':lock') == 0 and call('LREM', KEYS[9], 1, jobId) == 1 then
      local stalled = toInteger(unlessWrongType(try('HGET', jobKey, 'stc'))) + 1
      unlessWrongType(try('HSET', jobKey, 'stc', stalled))
      if stalled > tonumber(maxStalled) and not isScheduled(jobKey) then
        unlessWrongType(try('HSET', jobKey, 'defa', 'job stalled more than allowable limit'))
      end
      makeReady(base, jobId, 0, 'RPUSH', isHeld(KEYS[2], KEYS[9]))
      emit(KEYS[1], 'waiting', 'jobId', jobId, 'prev', 'active')
      emit(KEYS[1], 'stalled', 'jobId', jobId)
      moved[#moved + 1] = jobId
    end
  end
  local running = call('LRANGE', KEYS[9], 0, -1)
  for from = 1, #running, 7000 do
    call('SADD', KEYS[8], unpack(running, from, math.min(from + 6999, #running)))
  end
  return moved
end
return requeueStalled(base, now, maxStalled, checkMs)
