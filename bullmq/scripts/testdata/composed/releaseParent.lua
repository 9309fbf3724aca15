-- Composed from releaseParent.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker

local call, try = redis.call, redis.pcall
local queueKey = ARGV[1]
local parentId = ARGV[2]
local now = ARGV[3]
local function say(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
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
local function dueNext(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end
local function wakeAt(markerAt, delayedAt)
  local due = dueNext(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
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
local function putBack(queue, parentKey, parentId, now)
  local set = orNothing(try('HMGET', parentKey, 'priority', 'delay')) or {}
  local delay = numberOf(set[2])
  if delay > 0 then
    local due = tonumber(now) + delay
    call('ZADD', queue .. 'delayed', due * 4096, parentId)
    say(queue .. 'events', 'delayed', 'jobId', parentId, 'delay', due)
    wakeAt(queue .. 'marker', queue .. 'delayed')
    return
  end
  ready(queue, parentId, numberOf(set[1]), 'RPUSH', held(queue .. 'meta', queue .. 'active'))
  say(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children')
end
local function letGo(queue, parentKey, parentId, now)
  if call('EXISTS', parentKey) == 1 and call('ZREM', queue .. 'waiting-children', parentId) == 1 then
    putBack(queue, parentKey, parentId, now)
  end
end
local function letGoIfLast(queue, parentKey, parentId, now)
  if call('SCARD', parentKey .. ':dependencies') == 0 then letGo(queue, parentKey, parentId, now) end
end
local parentKey = queueKey .. ':' .. parentId
if call('HGET', parentKey, 'flowAttachmentFailed') then
  call('HDEL', parentKey, 'flowAttachmentFailed')
else
  letGoIfLast(queueKey .. ':', parentKey, parentId, now)
end
return 0
