-- Composed from addPlainJobsTo.lua and its parts. Regenerate with make composed.
-- KEYS[1] id, of the queue in use
-- KEYS[2] meta, of the queue in use
-- KEYS[3] events, of the queue in use
-- KEYS[4] marker, of the queue in use
-- KEYS[5] active, of the queue in use
-- KEYS[6] wait, of the queue in use
-- KEYS[7] prioritized, of the queue in use
-- KEYS[8] pc, of the queue in use
-- KEYS[9] paused, of the queue in use
-- KEYS[10] delayed, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'id', 'meta', 'events', 'marker', 'active', 'wait', 'prioritized', 'pc', 'paused', 'delayed' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'id', base .. 'meta', base .. 'events', base .. 'marker', nil, nil, nil, nil, nil, nil }, others)
    keysOf[n] = KEYS
  end
  return base
end
local rest = 1
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function emitTrimmed(limit, event, ...)
  call('XADD', KEYS[3], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local function idTexts(before, kinds)
  local ids, digits = { unpack(kinds) }, { '1', '2', '3', '4', '5', '6', '7', '8', '9', [0] = '0' }
  local tens
  for i = 1, #ids do
    local number = before + i
    local digit = number % 10
    if not tens or digit == 0 then tens = number < 10 and '' or (number - digit) / 10 .. '' end
    ids[i] = number < 1e14 and tens .. digits[digit] or number .. ''
  end
  return ids
end
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function waitList(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
  return queue .. 'wait'
end
local function eventLimitAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  return eventLimitOf(metaAt, set[1]), set[2] or isMaxed(set[3], activeAt)
end
local function signalReady(markerAt, held)
  if not held then call('ZADD', markerAt, '0', '0') end
end
local function nextDue(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end
local function signalDelayed(markerAt, delayedAt)
  local due = nextDue(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
end
local function priorityScore(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end
local function delayedScore(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', KEYS[10], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local function addPlain(base, kinds, at)
  local count = #kinds
  local before = call('INCRBY', KEYS[1], count) - count
  local limit, held = eventLimitAndHeld(KEYS[2], KEYS[5])
  local last, lasts, first, awake, later = {}, 0, {}, false, false
  local args, stream, kindOf = ARGV, KEYS[3], { string.byte(kinds, 1, count) }
  local ids = idTexts(before, kindOf)
  local name, opts, timestamp
  for i = 1, count do
    local jobId, kind = ids[i], kindOf[i] - 48
    local data, delay, priority = args[at], '0', '0'
    at = at + 1
    if kind < 4 then
      name, opts, timestamp = args[at], args[at + 1], args[at + 2]
      at = at + 3
    else
      kind = kind - 4
    end
    if kind == 2 then
      delay, priority = args[at], args[at + 1]
      at = at + 2
    end
    call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp,
      'delay', delay, 'priority', priority)
    call('XADD', stream, '*', 'event', 'added', 'jobId', jobId, 'name', name)
    local event, due = 'waiting'
    if delay ~= '0' then
      local score
      event, later = 'delayed', true
      score, due = delayedScore(timestamp, tonumber(delay))
      call('ZADD', KEYS[10], score, jobId)
    elseif kind == 2 then
      awake = true
      call('ZADD', KEYS[7], priorityScore(KEYS[8], tonumber(priority)), jobId)
    else
      awake = true
      if kind == 1 then
        first[#first + 1] = jobId
      else
        lasts = lasts + 1
        last[lasts] = jobId
      end
    end
    if due and i == count then
      emitTrimmed(limit, event, 'jobId', jobId, 'delay', due)
    elseif due then
      emit(KEYS[3], event, 'jobId', jobId, 'delay', due)
    elseif i == count then
      emitTrimmed(limit, event, 'jobId', jobId)
    else
      call('XADD', stream, '*', 'event', event, 'jobId', jobId)
    end
  end
  if last[1] then call('LPUSH', waitList(base), unpack(last)) end
  if first[1] then call('RPUSH', waitList(base), unpack(first)) end
  if awake then signalReady(KEYS[4], held) end
  if later then signalDelayed(KEYS[4], KEYS[10]) end
  return before + 1
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
local function addOne(base, name, data, opts, timestamp)
  local number, stream, metaAt = call('INCR', base .. 'id'), base .. 'events', base .. 'meta'
  local jobId = number < 1e14 and string.format('%d', number) or number .. '' -- the first form costs less
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  local limit, held = set[1], set[2] or set[3] and isMaxed(set[3], base .. 'active')
  if limit ~= '10000' then limit = eventLimitOf(metaAt, limit) end
  call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp, 'delay', '0', 'priority', '0')
  call('XADD', stream, '*', 'event', 'added', 'jobId', jobId, 'name', name)
  call('XADD', stream, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', jobId)
  call('LPUSH', waitList(base), jobId)
  if not held then call('ZADD', base .. 'marker', '0', '0') end
  return number
end
local numbers, args, at, written = {}, ARGV, rest, false
local name, opts, timestamp
for n = 1, #queues - 1 do
  local kinds, data = args[at], args[at + 1]
  local fine, first
  if kinds == '0' then
    name, opts, timestamp = args[at + 2], args[at + 3], args[at + 4]
    fine, first = pcall(addOne, queues[n], name, data, opts, timestamp)
    at = at + 5
  elseif kinds == '4' then
    fine, first = pcall(addOne, queues[n], name, data, opts, timestamp)
    at = at + 2
  else
    fine, first = pcall(addPlain, useQueue(n), kinds, at + 2)
    at = at + 2 + data -- the number of the values
  end
  if written and not fine then
    first = errorText(first) -- raising it would hide that the jobs of other queues were added
  elseif not written then
    fine, first = orText(fine, first)
  end
  written, numbers[n] = true, first
end
return numbers
