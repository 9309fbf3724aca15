-- Composed from releaseParent.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused

local call, try = redis.call, redis.pcall
local queueKey = ARGV[1]
local parentId = ARGV[2]
local now = ARGV[3]
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
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
local function requeueParent(queue, parentKey, parentId, now)
  local set = unlessWrongType(try('HMGET', parentKey, 'priority', 'delay')) or {}
  local delay = toNumber(set[2])
  if delay > 0 then
    local due = tonumber(now) + delay
    call('ZADD', queue .. 'delayed', due * 4096, parentId)
    emit(queue .. 'events', 'delayed', 'jobId', parentId, 'delay', due)
    signalDelayed(queue .. 'marker', queue .. 'delayed')
    return
  end
  makeReady(queue, parentId, toNumber(set[1]), 'RPUSH', isHeld(queue .. 'meta', queue .. 'active'))
  emit(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children')
end
local function releaseParent(queue, parentKey, parentId, now)
  if call('EXISTS', parentKey) == 1 and call('ZREM', queue .. 'waiting-children', parentId) == 1 then
    requeueParent(queue, parentKey, parentId, now)
  end
end
local function releaseParentIfReady(queue, parentKey, parentId, now)
  if call('SCARD', parentKey .. ':dependencies') == 0 then releaseParent(queue, parentKey, parentId, now) end
end
local parentKey = queueKey .. ':' .. parentId
if call('HGET', parentKey, 'flowAttachmentFailed') then
  call('HDEL', parentKey, 'flowAttachmentFailed')
else
  releaseParentIfReady(queueKey .. ':', parentKey, parentId, now)
end
return 0
