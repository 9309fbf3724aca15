-- Composed from drain.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] delayed
-- KEYS[9] repeat

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local delayed = ARGV[2]
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
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
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
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
local function dropJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
local function orNothing(answer)
  local err = type(answer) == 'table' and answer.err
  if not err then return answer end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local unlink
function unlink(childKey, parentKey, hard, base, dedupId)
  if (orNothing(try('SREM', parentKey .. ':dependencies', childKey)) or 0) == 0 then return false end
  if call('SCARD', parentKey .. ':dependencies') > 0 then return true end
  local queue, parentId = splitKey(parentKey)
  if not queue then return true end
  if call('ZREM', queue .. 'waiting-children', parentId) == 0 then return true end
  if hard and queue == base then
    local above = call('HMGET', parentKey, 'parentKey', 'deid')
    if above[1] and above[1] ~= '' and call('EXISTS', above[1]) == 1 then
      unlink(parentKey, above[1], hard, base, above[2])
    end
    dropJob(parentKey)
    if dedupId then call('DEL', queue .. 'de:' .. dedupId) end
    return true
  end
  ready(queue, parentId, 0, 'RPUSH', held(queue .. 'meta', queue .. 'active'))
  if not hard then say(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children') end
  return true
end
local function unlinkFromParent(jobKey, hard, base)
  local link = orNothing(try('HMGET', jobKey, 'parentKey', 'deid')) or {}
  if link[1] and link[1] ~= '' and call('EXISTS', link[1]) == 1 then
    unlink(jobKey, link[1], hard, base, link[2])
  end
  return link[2]
end
local function freeDedup(base, jobId, dedupId)
  if dedupId and call('GET', base .. 'de:' .. dedupId) == jobId then
    call('DEL', base .. 'de:' .. dedupId, base .. 'dn:' .. dedupId)
  end
end
local function discard(base, jobId)
  local dedupId = unlinkFromParent(base .. jobId, true, base)
  freeDedup(base, jobId, dedupId)
  dropJob(base .. jobId)
end
local function discardBut(base, ids, spared)
  local kept, gone = {}, 0
  for i = 1, #ids do
    if spared and spared[ids[i]] then
      kept[#kept + 1] = ids[i]
    else
      discard(base, ids[i])
      gone = gone + 1
    end
  end
  return kept, gone
end
local function sweepList(base, at, max, spared)
  local ids = call('LRANGE', at, 0, max - 1)
  local kept, gone = discardBut(base, ids, spared)
  call('LTRIM', at, #ids, -1)
  for i = #kept, 1, -1 do call('LPUSH', at, kept[i]) end
  return gone
end
local function forget(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end
local function sweepSet(base, at, max, spared)
  local ids = call('ZRANGE', at, 0, max - 1)
  local _, gone = discardBut(base, ids, spared)
  if not spared then
    forget(at, ids)
  else
    for i = 1, #ids do
      if not spared[ids[i]] then call('ZREM', at, ids[i]) end
    end
  end
  return gone
end
local spared = {}
local schedulers = call('ZRANGE', KEYS[9], 0, -1, 'WITHSCORES')
for i = 1, #schedulers, 2 do
  spared['repeat:' .. schedulers[i] .. ':' .. schedulers[i + 1]] = true
end
sweepList(base, KEYS[3], 0, spared)
sweepList(base, KEYS[7], 0, spared)
if delayed == '1' then sweepSet(base, KEYS[8], 0, spared) end
sweepSet(base, KEYS[4], 0, spared)
return 0
