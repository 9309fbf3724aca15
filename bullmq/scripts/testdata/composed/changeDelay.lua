-- Composed from changeDelay.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] delayed
-- KEYS[4] marker

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local now = ARGV[3]
local delay = ARGV[4]
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
local function nextDue(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end
local function signalDelayed(markerAt, delayedAt)
  local due = nextDue(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
end
local function delayedScore(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', KEYS[3], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local score, due = delayedScore(now, tonumber(delay))
if call('ZREM', KEYS[3], jobId) == 0 then return -3 end
call('HSET', jobKey, 'delay', delay)
call('ZADD', KEYS[3], score, jobId)
emitTrimmed(eventLimit(KEYS[2]), 'delayed', 'jobId', jobId, 'delay', due)
signalDelayed(KEYS[4], KEYS[3])
return 0
