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
local function capOf(metaAt, kept)
  if kept and string.find(kept, '^%d+$') then return kept end
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function cap(metaAt)
  return capOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function sayTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local function dueNext(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end
local function wakeAt(markerAt, delayedAt)
  local due = dueNext(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
end
local function slot(now, delay)
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
local score, due = slot(now, tonumber(delay))
if call('ZREM', KEYS[3], jobId) == 0 then return -3 end
call('HSET', jobKey, 'delay', delay)
call('ZADD', KEYS[3], score, jobId)
sayTrimmed(cap(KEYS[2]), 'delayed', 'jobId', jobId, 'delay', due)
wakeAt(KEYS[4], KEYS[3])
return 0
