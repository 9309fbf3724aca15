-- Composed from cancelJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] active
-- KEYS[9] delayed
-- KEYS[10] waiting-children
-- KEYS[11] completed
-- KEYS[12] failed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local failure = ARGV[3]
local reason = ARGV[4]
local request = ARGV[5]
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
local jobKey, extension = base .. jobId, string.sub(base, 1, -2) .. '@x:'
if request ~= '' then
  call('PEXPIRE', extension .. 'events', 86400000)
  if not call('SET', extension .. 'request:' .. request, jobId, 'NX', 'PX', 3600000) then return 0 end
end
if call('TYPE', jobKey).ok ~= 'hash' then return -1 end
if call('ZSCORE', KEYS[11], jobId) or call('ZSCORE', KEYS[12], jobId) then return 3 end
local function mark() call('HSET', jobKey, 'defa', failure, 'cancelled', 1) end
if call('LPOS', KEYS[8], jobId) then
  mark()
  if request == '' then
    try('XADD', extension .. 'events', 'MAXLEN', '~', 1000, '*', 'event', 'cancel', 'jobId', jobId, 'reason', reason,
      'prev', 'active')
    try('PEXPIRE', extension .. 'events', 86400000)
  end
  return 2
end
local function leave()
  if call('LREM', KEYS[3], -1, jobId) == 1 or call('LREM', KEYS[7], -1, jobId) == 1 then return 'waiting' end
  if call('ZREM', KEYS[4], jobId) == 1 then return 'prioritized' end
  if call('ZREM', KEYS[9], jobId) == 1 then return 'delayed' end
  if call('ZREM', KEYS[10], jobId) == 1 then return 'waiting-children' end
end
local prev = leave()
if not prev then return -1 end
mark()
if prev == 'delayed' then call('HSET', jobKey, 'delay', 0) end
makeReady(base, jobId, 0, 'RPUSH', isHeld(KEYS[2], KEYS[8]))
if prev ~= 'waiting' then emitTrimmed(eventLimit(KEYS[2]), 'waiting', 'jobId', jobId, 'prev', prev) end
return 1
