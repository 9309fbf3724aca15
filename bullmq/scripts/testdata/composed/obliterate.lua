-- Composed from obliterate.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] active
-- KEYS[8] delayed
-- KEYS[9] repeat
-- KEYS[10] completed
-- KEYS[11] paused
-- KEYS[12] failed
-- KEYS[13] stalled-check
-- KEYS[14] stalled
-- KEYS[15] id
-- KEYS[16] metrics:completed
-- KEYS[17] metrics:completed:data
-- KEYS[18] metrics:failed
-- KEYS[19] metrics:failed:data

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local count = ARGV[2]
local force = ARGV[3]
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
local function discardExcept(base, ids, spared)
  local kept, gone = {}, 0
  for i = 1, #ids do
    if spared and spared[ids[i]] then
      kept[#kept + 1] = ids[i]
    else
      discardJob(base, ids[i])
      gone = gone + 1
    end
  end
  return kept, gone
end
local function emptyList(base, at, max, spared)
  local ids = call('LRANGE', at, 0, max - 1)
  local kept, gone = discardExcept(base, ids, spared)
  call('LTRIM', at, #ids, -1)
  for i = #kept, 1, -1 do call('LPUSH', at, kept[i]) end
  return gone
end
local function removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end
local function emptySet(base, at, max, spared)
  local ids = call('ZRANGE', at, 0, max - 1)
  local _, gone = discardExcept(base, ids, spared)
  if not spared then
    removeIds(at, ids)
  else
    for i = 1, #ids do
      if not spared[ids[i]] then call('ZREM', at, ids[i]) end
    end
  end
  return gone
end
local function deleteExtensions(base)
  local extension = string.sub(base, 1, -2) .. '@x:'
  try('DEL', extension .. 'events')
  try('DEL', extension .. 'paused-schedulers')
  local workers, own = try('ZRANGE', extension .. 'workers', 0, -1), extension .. 'worker:'
  for i = 1, #workers do
    if string.sub(workers[i], 1, #own) == own then try('DEL', workers[i]) end
  end
  try('DEL', extension .. 'workers')
end
if call('HEXISTS', KEYS[2], 'paused') == 0 then return -1 end
local left = tonumber(count)
local running = call('LRANGE', KEYS[7], 0, left - 1)
if #running > 0 and force ~= '1' then return -2 end
for i = 1, #running do call('DEL', base .. running[i] .. ':lock') end
local function deleteSchedulers()
  local ids = call('ZRANGE', KEYS[9], 0, left - 1)
  for i = 1, #ids do call('DEL', KEYS[9] .. ':' .. ids[i]) end
  removeIds(KEYS[9], ids)
  return #ids
end
local steps = {
  { emptyList, KEYS[7] }, { emptySet, KEYS[8] }, { deleteSchedulers }, { emptySet, KEYS[10] },
  { emptyList, KEYS[3] }, { emptyList, KEYS[11] }, { emptySet, KEYS[4] }, { emptySet, KEYS[12] },
}
for i = 1, #steps do
  left = left - steps[i][1](base, steps[i][2], left)
  if left <= 0 then return 1 end
end
deleteExtensions(base)
call('DEL', KEYS[1], base .. 'delay', KEYS[13], KEYS[14], KEYS[15], KEYS[5], KEYS[6], KEYS[2], KEYS[16],
  KEYS[17], KEYS[18], KEYS[19])
return 0
