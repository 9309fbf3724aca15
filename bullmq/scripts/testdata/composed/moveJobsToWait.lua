-- Composed from moveJobsToWait.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] completed
-- KEYS[8] failed
-- KEYS[9] delayed
-- KEYS[10] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local state = ARGV[2]
local count = ARGV[3]
local upTo = ARGV[4]
local resetMade = ARGV[5]
local resetStarted = ARGV[6]
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function eventLimit(metaAt)
  return eventLimitOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
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
  return queue .. 'wait'
end
local function signalReady(markerAt, held)
  if not held then call('ZADD', markerAt, '0', '0') end
end
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end
local function repend(jobKey, state)
  local parentKey = unlessWrongType(try('HGET', jobKey, 'parentKey'))
  if not parentKey or call('EXISTS', parentKey) == 0 then return end
  local gone
  if state == 'failed' then
    gone = call('ZREM', parentKey .. ':unsuccessful', jobKey) == 1 or call('HDEL', parentKey .. ':failed', jobKey) == 1
  else
    gone = call('HDEL', parentKey .. ':processed', jobKey) == 1
  end
  if gone then call('SADD', parentKey .. ':dependencies', jobKey) end
end
local at = base .. state
local held = isHeld(KEYS[2], KEYS[10])
local ids = call('ZRANGEBYSCORE', at, 0, upTo, 'LIMIT', 0, count)
if #ids > 0 then
  local fields = { 'finishedOn', 'processedOn', state == 'failed' and 'failedReason' or 'returnvalue' }
  if resetMade == '1' then fields[#fields + 1] = 'atm' end
  if resetStarted == '1' then fields[#fields + 1] = 'ats' end
  for i = 1, #ids do
    if state ~= 'delayed' then
      unlessWrongType(try('HDEL', base .. ids[i], unpack(fields))) -- the next fetch drops a key that is not a hash
      repend(base .. ids[i], state)
    end
  end
  local limit = eventLimit(KEYS[2])
  for i = 1, #ids do emitTrimmed(limit, 'waiting', 'jobId', ids[i], 'prev', state) end
  removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('LPUSH', waitList(base), unpack(ids, from, math.min(from + 6999, #ids)))
  end
  signalReady(KEYS[6], held)
end
return #ids >= tonumber(count) and 1 or 0
