-- Composed from replayDeadLetters.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local from = ARGV[2]
local rest = 3
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
local function emitTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function waitList(queue)
  return queue .. 'wait'
end
local function eventLimitAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  return eventLimitOf(metaAt, set[1]), set[2] or isMaxed(set[3], activeAt)
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
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
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
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function checkRename(from, to)
  local renamed = try('RENAME', from .. ':moved', to .. ':moved') -- no key has this name
  if renamed.err and not string.find(renamed.err, 'no such key', 1, true) then error(renamed.err, 0) end
end
local function relocateParts(fromKey, toKey)
  local parts = { ':logs', ':dependencies', ':processed', ':failed', ':unsuccessful' }
  for i = 1, #parts do
    if call('EXISTS', fromKey .. parts[i]) == 1 then call('RENAME', fromKey .. parts[i], toKey .. parts[i]) end
  end
end
local limit, limitFrom, held
local forgotten = {
  finishedOn = true, processedOn = true, failedReason = true, returnvalue = true, atm = true, ats = true,
  attemptsMade = true, stc = true, defa = true, cancelled = true,
}
local function decoded(text)
  local read, value = pcall(cjson.decode, text or '')
  if read and type(value) == 'table' then return value end
end
local function isLetterOf(jobId, opts, original)
  local letter = opts and opts.deadLetter
  if type(letter) ~= 'table' or letter.id ~= jobId or letter.queue ~= string.sub(base, 1, -2) then return false end
  if not original or #original % 2 == 1 then return false end
  for i = 1, #original do
    if type(original[i]) ~= 'string' then return false end
  end
  return true
end
local function takeOut(letterId)
  local sets = { 'completed', 'failed', 'delayed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', from .. sets[i], letterId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused' } -- the oldest letters are at their ends
  for i = 1, #lists do
    if call('LREM', from .. lists[i], -1, letterId) == 1 then return lists[i] end
  end
  return 'unknown'
end
local function updateChild(jobKey, childKey, forget, ...)
  local queue, id = splitKey(childKey)
  if not queue or call('EXISTS', childKey) == 0 or unlessWrongType(try('ZSCORE', queue .. 'failed', id)) then return end
  call(forget, ...)
  if unlessWrongType(try('ZSCORE', queue .. 'completed', id)) then
    call('HSET', jobKey .. ':processed', childKey, unlessWrongType(try('HGET', childKey, 'returnvalue')) or 'null')
  else
    call('SADD', jobKey .. ':dependencies', childKey)
  end
end
local function updateChildren(jobKey)
  local pendingAt, failedAt, ignoredAt = jobKey .. ':dependencies', jobKey .. ':unsuccessful', jobKey .. ':failed'
  local pending = unlessWrongType(try('SMEMBERS', pendingAt)) or {}
  for i = 1, #pending do updateChild(jobKey, pending[i], 'SREM', pendingAt, pending[i]) end
  local failed = unlessWrongType(try('ZRANGE', failedAt, 0, -1)) or {}
  for i = 1, #failed do updateChild(jobKey, failed[i], 'ZREM', failedAt, failed[i]) end
  local ignored = unlessWrongType(try('HKEYS', ignoredAt)) or {}
  for i = 1, #ignored do updateChild(jobKey, ignored[i], 'HDEL', ignoredAt, ignored[i]) end
end
local function restore(jobKey, name, data, original)
  call('HSET', jobKey, 'name', name, 'data', data)
  for i = 1, #original, 2 do
    if not forgotten[original[i]] then call('HSET', jobKey, original[i], original[i + 1]) end
  end
end
local function replay(letterId, jobId)
  local letterKey, jobKey = from .. letterId, base .. jobId
  if call('EXISTS', letterKey) == 0 then return 2 end
  local letter = unlessWrongType(try('HMGET', letterKey, 'name', 'data', 'opts', 'original')) or {}
  local original = decoded(letter[4])
  if not isLetterOf(jobId, decoded(letter[3]), original) then return 0 end
  if call('EXISTS', letterKey .. ':lock') == 1 or call('LPOS', from .. 'active', letterId) then return 3 end
  if call('ZSCORE', from .. 'waiting-children', letterId) then return 4 end
  if call('EXISTS', jobKey) == 1 then return 5 end
  if not limit then
    limit, held = eventLimitAndHeld(KEYS[2], KEYS[7])
    limitFrom = eventLimit(from .. 'meta')
  end
  local prev = takeOut(letterId)
  relocateParts(letterKey, jobKey)
  deleteJob(letterKey)
  call('XADD', from .. 'events', 'MAXLEN', '~', limitFrom, '*', 'event', 'removed', 'jobId', letterId, 'prev', prev)
  restore(jobKey, letter[1] or '', letter[2] or '{}', original)
  updateChildren(jobKey)
  repend(jobKey, 'failed')
  emit(KEYS[1], 'added', 'jobId', jobId, 'name', letter[1] or '')
  makeReady(base, jobId, math.max(priorityOf(jobKey), 0), 'LPUSH', held)
  emitTrimmed(limit, 'waiting', 'jobId', jobId)
  return 1
end
checkRename(from, base)
local outcomes = {}
for i = rest, #ARGV - 1, 2 do outcomes[#outcomes + 1] = replay(ARGV[i], ARGV[i + 1]) end
return outcomes
