-- Composed from removeJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] repeat

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local children = ARGV[3]
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
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
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local detachChild
function detachChild(childKey, parentKey, hard, base, dedupId)
  if (unlessWrongType(try('SREM', parentKey .. ':dependencies', childKey)) or 0) == 0 then return false end
  if call('SCARD', parentKey .. ':dependencies') > 0 then return true end
  local queue, parentId = splitKey(parentKey)
  if not queue then return true end
  if call('ZREM', queue .. 'waiting-children', parentId) == 0 then return true end
  if hard and queue == base then
    local above = call('HMGET', parentKey, 'parentKey', 'deid')
    if above[1] and above[1] ~= '' and call('EXISTS', above[1]) == 1 then
      detachChild(parentKey, above[1], hard, base, above[2])
    end
    deleteJob(parentKey)
    if dedupId then call('DEL', queue .. 'de:' .. dedupId) end
    return true
  end
  makeReady(queue, parentId, 0, 'RPUSH', isHeld(queue .. 'meta', queue .. 'active'))
  if not hard then emit(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children') end
  return true
end
local function detachFromParent(jobKey, hard, base)
  local link = unlessWrongType(try('HMGET', jobKey, 'parentKey', 'deid')) or {}
  if link[1] and link[1] ~= '' and call('EXISTS', link[1]) == 1 then
    detachChild(jobKey, link[1], hard, base, link[2])
  end
  return link[2]
end
local function freeDeduplication(base, jobId, dedupId)
  if dedupId and call('GET', base .. 'de:' .. dedupId) == jobId then
    call('DEL', base .. 'de:' .. dedupId, base .. 'dn:' .. dedupId)
  end
end
local isLocked
function isLocked(queue, jobId, withChildren)
  if call('EXISTS', queue .. jobId .. ':lock') == 1 then return true end
  if withChildren then
    local pending = unlessWrongType(try('SMEMBERS', queue .. jobId .. ':dependencies')) or {}
    for i = 1, #pending do
      local childQueue, childId = splitKey(pending[i])
      if childId and isLocked(childQueue, childId, true) then return true end
    end
  end
  return false
end
local function removeFromList(list, jobId, places, released)
  if not places then return call('LREM', list, 1, jobId) == 1 end
  local placeOf = places[list]
  if not placeOf then
    placeOf = {}
    local ids = call('LRANGE', list, 0, -1)
    for i = #ids, 1, -1 do placeOf[ids[i]] = i - 1 end
    places[list] = placeOf
  end
  local place = placeOf[jobId]
  if not place then return released and call('LREM', list, -1, jobId) == 1 end
  placeOf[jobId] = nil
  call('LSET', list, place, '')
  return true
end
local function removeFromState(queue, jobId, places, released)
  local sets = { 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', queue .. sets[i], jobId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused' }
  for i = 1, #lists do
    if removeFromList(queue .. lists[i], jobId, places, released) then return lists[i] end
  end
  return call('LREM', queue .. 'active', 1, jobId) == 1 and 'active' or 'unknown'
end
local removeJob
local function removeChildren(jobKey, how)
  local had = false
  local function each(step, command, ...)
    local keys = unlessWrongType(try(command, ...)) or {}
    local many = #keys > 100 * step and not how.places
    if many then how.places = {} end
    for i = 1, #keys, step do
      local queue, id = splitKey(keys[i])
      if id then removeJob(queue, id, jobKey, how) end
    end
    if many then
      for list in pairs(how.places) do call('LREM', list, 0, '') end
      how.places = nil
    end
    had = had or #keys > 0
  end
  if not how.keepEnded then
    each(2, 'HGETALL', jobKey .. ':processed')
    each(2, 'HGETALL', jobKey .. ':failed')
    each(1, 'ZRANGE', jobKey .. ':unsuccessful', 0, -1)
  end
  each(1, 'SMEMBERS', jobKey .. ':dependencies')
  return had
end
function removeJob(queue, jobId, parentKey, how)
  local jobKey = queue .. jobId
  if how.keepLocked and isLocked(queue, jobId) then return end
  if how.keepEnded and call('ZSCORE', queue .. 'failed', jobId) then return end
  if parentKey then
    detachChild(jobKey, parentKey, false)
  else
    detachFromParent(jobKey, false)
  end
  local released = not how.keepChildren and removeChildren(jobKey, how)
  local prev = removeFromState(queue, jobId, how.places, released)
  freeDeduplication(queue, jobId, unlessWrongType(try('HGET', jobKey, 'deid')))
  local existed = deleteJob(jobKey) > 0
  if existed then
    call('XADD', queue .. 'events', 'MAXLEN', '~', eventLimit(queue .. 'meta'), '*', 'event', 'removed', 'jobId', jobId,
      'prev', prev)
  end
  return existed or prev ~= 'unknown'
end
local scheduler = unlessWrongType(try('HGET', base .. jobId, 'rjk'))
local due = scheduler and call('ZSCORE', KEYS[7], scheduler)
if due and jobId == 'repeat:' .. scheduler .. ':' .. due then return -8 end
if isLocked(base, jobId, children == '1') then return 0 end
return removeJob(base, jobId, nil, { keepChildren = children ~= '1' }) and 1 or 2
