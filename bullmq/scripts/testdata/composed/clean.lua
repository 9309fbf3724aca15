-- Composed from clean.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] repeat
-- KEYS[8] paused
-- KEYS[9] active
-- KEYS[10] delayed
-- KEYS[11] completed
-- KEYS[12] failed
-- KEYS[13] waiting-children

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local before = ARGV[2]
local limit = ARGV[3]
local state = ARGV[4]
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
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
local function discardJob(base, jobId)
  local dedupId = detachFromParent(base .. jobId, true, base)
  freeDeduplication(base, jobId, dedupId)
  deleteJob(base .. jobId)
end
local function removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end
local at = base .. state
before, limit = tonumber(before), tonumber(limit)
local times = {
  wait = { 'finishedOn', 'processedOn', 'timestamp' }, paused = { 'finishedOn', 'processedOn', 'timestamp' },
  active = { 'finishedOn', 'processedOn', 'timestamp' }, delayed = { 'processedOn', 'timestamp' },
  prioritized = { 'timestamp' },
}
local function scheduled(jobId)
  local scheduler = unlessWrongType(try('HGET', base .. jobId, 'rjk'))
  local due = scheduler and call('ZSCORE', KEYS[7], scheduler)
  return due and jobId == 'repeat:' .. scheduler .. ':' .. due
end
local function old(jobId)
  local found = unlessWrongType(try('HMGET', base .. jobId, unpack(times[state]))) or {}
  for i = 1, #times[state] do
    local at = tonumber(found[i])
    if at and math.abs(at) < math.huge then return at <= before end
  end
  return true
end
local removed = {}
local function remove(jobId)
  discardJob(base, jobId)
  removed[#removed + 1] = jobId
end
if state == 'wait' or state == 'paused' or state == 'active' then
  local ids = call('LRANGE', at, limit > 0 and -limit or 0, -1)
  for i = 1, #ids do
    local id = ids[i]
    if (state ~= 'active' or call('EXISTS', base .. id .. ':lock') == 0) and not scheduled(id) and old(id) then
      call('LSET', at, i - #ids - 1, '')
      remove(id)
    end
  end
  call('LREM', at, 0, '')
else
  local query = { 'ZRANGEBYSCORE', at, 0, times[state] and '+inf' or before }
  if limit > 0 then
    query[5], query[6], query[7] = 'LIMIT', 0, limit
  end
  local ids = call(unpack(query))
  for i = 1, #ids do
    if not times[state] or (not scheduled(ids[i]) and old(ids[i])) then remove(ids[i]) end
  end
  removeIds(at, removed)
end
emit(KEYS[1], 'cleaned', 'count', #removed)
return removed
