-- Composed from moveWaiting.lua and its parts. Regenerate with make composed.
-- KEYS[1] events, of the queue in use
-- KEYS[2] meta, of the queue in use
-- KEYS[3] wait, of the queue in use
-- KEYS[4] prioritized, of the queue in use
-- KEYS[5] pc, of the queue in use
-- KEYS[6] marker, of the queue in use
-- KEYS[7] paused, of the queue in use
-- KEYS[8] delayed, of the queue in use
-- KEYS[9] active, of the queue in use
-- KEYS[10] id, of the queue in use
-- KEYS[11] stalled, of the queue in use
-- KEYS[12] completed, of the queue in use
-- KEYS[13] failed, of the queue in use
-- KEYS[14] metrics:completed, of the queue in use
-- KEYS[15] metrics:failed, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'events', 'meta', 'wait', 'prioritized', 'pc', 'marker', 'paused', 'delayed', 'active', 'id', 'stalled', 'completed', 'failed', 'metrics:completed', 'metrics:failed' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'events', base .. 'meta', base .. 'wait', nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }, others)
    keysOf[n] = KEYS
  end
  return base
end
local now = ARGV[1]
local requested = ARGV[2]
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
local function isHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isMaxed(set[2], activeAt)
end
local function waitList(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
  return queue .. 'wait'
end
local function eventLimitAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  return eventLimitOf(metaAt, set[1]), set[2] or isMaxed(set[3], activeAt)
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
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function delayedScore(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', KEYS[8], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local function delayJob(jobId, now, delay, limit)
  local score, due = delayedScore(now, delay)
  call('ZADD', KEYS[8], score, jobId)
  emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  signalDelayed(KEYS[6], KEYS[8])
end
local function storeJob(jobKey, jobId, job)
  local extra = {}
  if job.parentKey then
    extra = { 'parentKey', job.parentKey, 'parent', job.parent }
  end
  if job.scheduler then
    extra[#extra + 1] = 'rjk'
    extra[#extra + 1] = job.scheduler
  end
  if job.dedupId then
    extra[#extra + 1] = 'deid'
    extra[#extra + 1] = job.dedupId
  end
  call('HSET', jobKey, 'name', job.name, 'data', job.data, 'opts', job.opts, 'timestamp', job.timestamp,
    'delay', job.delay, 'priority', job.priority, unpack(extra))
  emit(KEYS[1], 'added', 'jobId', jobId, 'name', job.name)
end
local function enqueueJob(base, jobId, job, now, limit)
  local delay = tonumber(job.delay)
  if delay ~= 0 then
    delayJob(jobId, now, delay, limit)
    return
  end
  makeReady(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', isHeld(KEYS[2], KEYS[9]))
  emitTrimmed(limit, 'waiting', 'jobId', jobId)
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
local function toInteger(text)
  return math.floor(math.max(math.min(toNumber(text), 9007199254740991), -9007199254740991))
end
local function toText(value)
  if type(value) == 'string' or type(value) == 'number' then return value end
end
local function deduplicationOf(base, id, ttl, flags)
  if not given(id) then return nil end
  return {
    key = base .. 'de:' .. id, id = id, ttl = tonumber(ttl) or 0,
    extend = string.find(flags, 'e', 1, true), replace = string.find(flags, 'r', 1, true),
    keepLast = string.find(flags, 'k', 1, true),
  }
end
local function claimDeduplication(mode, jobId)
  if mode.ttl > 0 and not mode.keepLast then
    call('SET', mode.key, jobId, 'PX', mode.ttl)
  else
    call('SET', mode.key, jobId)
  end
end
local function takeOverDeduplication(base, mode, owner, jobId)
  if true then return false end
  if call('PTTL', mode.key) ~= -1 or call('EXISTS', base .. owner) == 1 then return false end
  call('DEL', mode.key, base .. 'dn:' .. mode.id)
  claimDeduplication(mode, jobId)
  return true
end
local function emitDeduplicated(limit, mode, owner, dropped)
  emitTrimmed(limit, 'debounced', 'jobId', owner, 'debounceId', mode.id)
  emitTrimmed(limit, 'deduplicated', 'jobId', owner, 'deduplicationId', mode.id, 'deduplicatedJobId', dropped)
end
local function keepUntilOwnerEnds(base, mode, owner, jobId, job, limit)
  if not mode.keepLast or not call('LPOS', KEYS[9], owner) then return false end
  local fields = { 'name', job.name, 'data', job.data, 'opts', job.opts, 'jid', jobId }
  local function also(field, value)
    if value then
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  also('pk', job.parentKey)
  also('pd', job.parent)
  also('pdk', job.parentKey and job.parentKey .. ':dependencies')
  also('rjk', job.scheduler)
  local later = base .. 'dn:' .. mode.id
  call('DEL', later)
  call('HSET', later, unpack(fields))
  call('PERSIST', mode.key)
  emitDeduplicated(limit, mode, owner, jobId)
  return true
end
local function replaceOwner(base, mode, jobId, job, limit)
  local owner = call('GET', mode.key)
  if not owner then
    claimDeduplication(mode, jobId)
    return nil
  end
  if call('ZREM', KEYS[8], owner) == 1 then
    deleteJob(base .. owner)
    emit(KEYS[1], 'removed', 'jobId', owner, 'prev', 'delayed')
    emitDeduplicated(limit, mode, jobId, owner)
    if mode.ttl > 0 and not mode.extend and not mode.keepLast then
      call('SET', mode.key, jobId, 'KEEPTTL')
    else
      claimDeduplication(mode, jobId)
    end
    return nil
  end
  if takeOverDeduplication(base, mode, owner, jobId) then return nil end
  keepUntilOwnerEnds(base, mode, owner, jobId, job, limit)
  return owner
end
local function yieldToOwner(base, mode, jobId, job, limit)
  local owner
  if mode.ttl > 0 and mode.extend then
    owner = call('GET', mode.key)
    if not owner then
      claimDeduplication(mode, jobId)
      return nil
    end
  else
    local free
    if mode.ttl > 0 and not mode.keepLast then
      free = call('SET', mode.key, jobId, 'PX', mode.ttl, 'NX')
    else
      free = call('SET', mode.key, jobId, 'NX')
    end
    if free then return nil end
    owner = call('GET', mode.key)
  end
  if takeOverDeduplication(base, mode, owner, jobId) then return nil end
  if keepUntilOwnerEnds(base, mode, owner, jobId, job, limit) then return owner end
  if mode.ttl > 0 and mode.extend then claimDeduplication(mode, owner) end
  emitDeduplicated(limit, mode, owner, jobId)
  return owner
end
local function deduplicate(base, mode, jobId, job, now, limit, mayReplace)
  if mode.replace and mayReplace then return replaceOwner(base, mode, jobId, job, limit) end
  local owner = yieldToOwner(base, mode, jobId, job, limit)
  if owner and mode.reschedule and mayReplace and call('ZSCORE', KEYS[8], owner) then
    local delay = tonumber(job.delay) or 0
    call('HSET', base .. owner, 'delay', delay)
    delayJob(owner, now, delay, limit)
  end
  return owner
end
local function addKeptJob(base, dedupId, now)
  local later = base .. 'dn:' .. dedupId
  local kept = unlessWrongType(try('HMGET', later, 'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')) or {}
  if not kept[3] then return end
  local read, opts = pcall(cjson.decode, kept[3])
  if not read or type(opts) ~= 'table' then opts = {} end
  local fresh = call('INCR', KEYS[10]) .. ''
  local jobId = kept[4] or fresh
  local de = type(opts.de) == 'table' and opts.de or {}
  claimDeduplication({ key = base .. 'de:' .. dedupId, ttl = toInteger(de.ttl), keepLast = de.keepLastIfActive }, jobId)
  local job = {
    name = kept[1] or '', data = kept[2] or '{}', opts = kept[3], timestamp = now, delay = toNumber(opts.delay),
    priority = toNumber(opts.priority), lifo = opts.lifo, parentKey = kept[5], parent = kept[6] or '',
    scheduler = kept[8], dedupId = toText(de.id),
  }
  local limit = eventLimit(KEYS[2])
  storeJob(base .. jobId, jobId, job)
  enqueueJob(base, jobId, job, now, limit)
  if kept[7] then call('SADD', kept[7], base .. jobId) end
  call('DEL', later)
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
local function releaseDeduplication(base, dedupId, jobId, now)
  local key = base .. 'de:' .. dedupId
  local left = call('PTTL', key)
  if left == 0 or (left == -1 and call('GET', key) == jobId) then call('DEL', key) end
  addKeptJob(base, dedupId, now)
end
local function checkTransfer()
  local to = useQueue(2)
  local from = useQueue(1)
  if from == to then error('a job can not move to the queue in which it is', 0) end
  checkRename(from, to)
end
local function followParent(jobKey, queueKey, jobId)
  local pending = unlessWrongType(try('SMEMBERS', jobKey .. ':dependencies')) or {}
  for i = 1, #pending do
    local read, parent = pcall(cjson.decode, unlessWrongType(try('HGET', pending[i], 'parent')) or '')
    if read and type(parent) == 'table' then
      parent.id, parent.queueKey = jobId, queueKey
      call('HSET', pending[i], 'parentKey', jobKey, 'parent', (string.gsub(cjson.encode(parent), '\\/', '/')))
    end
  end
end
local function forgetFetch(jobKey)
  local starts = toInteger(call('HGET', jobKey, 'ats'))
  call('HDEL', jobKey, 'processedOn', 'pb', 'rjk')
  if starts > 1 then call('HSET', jobKey, 'ats', starts - 1) else call('HDEL', jobKey, 'ats') end
end
local function admitMoved(to, jobId, now, job, mode)
  local newId, digits = jobId, string.match(jobId, '^[1-9]%d*$')
  local number = digits and tonumber(digits)
  local counter = call('INCR', KEYS[10])
  local limit, held = eventLimitAndHeld(KEYS[2], KEYS[9])
  if call('EXISTS', to .. jobId) == 0 then
    if number and counter < number then call('SET', KEYS[10], jobId) end
  elseif number or job.parentKey then
    newId = counter .. ''
  else
    emitTrimmed(limit, 'duplicated', 'jobId', jobId)
    return nil, jobId, 'exists'
  end
  local owner = mode and deduplicate(to, mode, newId, job, now, limit, true)
  if owner then return nil, owner, 'deduplicated' end
  return newId, limit, held
end
local function transferJob(jobId, prev, now, dedup, opts)
  local from = useQueue(1)
  local fromKey = from .. jobId
  local set = unlessWrongType(try('HMGET', fromKey, 'name', 'data', 'opts', 'priority', 'parentKey', 'parent', 'deid')) or {}
  if set[7] then releaseDeduplication(from, set[7], jobId, now) end
  local to = useQueue(2)
  local job = {
    name = set[1] or '', data = set[2] or '{}', opts = opts or set[3] or '{}', delay = '0',
    parentKey = set[5] and call('EXISTS', set[5]) == 1 and set[5] or nil, parent = set[6],
  }
  local mode = deduplicationOf(to, set[7] or '', dedup.ttl, dedup.flags)
  local newId, limit, held = admitMoved(to, jobId, now, job, mode)
  local outcome = ''
  if newId then
    local newKey = to .. newId
    call('RENAME', fromKey, newKey)
    relocateParts(fromKey, newKey)
    if opts then call('HSET', newKey, 'opts', opts) end
    if prev == 'delayed' and not dedup.later then call('HSET', newKey, 'delay', '0') end
    if not dedup.requested then forgetFetch(newKey) end
    if job.parentKey and call('SREM', job.parentKey .. ':dependencies', fromKey) == 1 then
      call('SADD', job.parentKey .. ':dependencies', newKey)
    end
    followParent(newKey, string.sub(to, 1, -2), newId)
    emit(KEYS[1], 'added', 'jobId', newId, 'name', job.name)
    if dedup.later then
      call('ZADD', KEYS[8], dedup.later, newId)
      emitTrimmed(limit, 'delayed', 'jobId', newId, 'delay', math.floor(toNumber(dedup.later) / 4096))
      signalDelayed(KEYS[6], KEYS[8])
    else
      makeReady(to, newId, math.max(toNumber(set[4]), 0), given(dedup.lifo) and 'RPUSH' or 'LPUSH', held)
      emitTrimmed(limit, 'waiting', 'jobId', newId)
    end
  else
    detachFromParent(fromKey, false)
    deleteJob(fromKey)
    newId, outcome = limit, held
  end
  useQueue(1)
  emitTrimmed(eventLimit(KEYS[2]), 'removed', 'jobId', jobId, 'prev', prev)
  return newId, outcome
end
local function isDue(score)
  return score and toNumber(score) < (tonumber(now) + 1) * 4096
end
local function obstacle(jobId)
  local jobKey = useQueue(1) .. jobId
  if call('EXISTS', jobKey) == 0 then return 1 end
  local job = unlessWrongType(try('HMGET', jobKey, 'parentKey', 'rjk', 'deid'))
  if not job then return 1 end
  if job[1] or call('EXISTS', jobKey .. ':dependencies', jobKey .. ':processed', jobKey .. ':failed', jobKey .. ':unsuccessful') > 0 then
    return 2
  end
  if job[2] then return 3 end
  local to = useQueue(2)
  local number = string.match(jobId, '^[1-9]%d*$')
  local taken = not number and call('EXISTS', to .. jobId) == 1 or job[3] and call('EXISTS', to .. 'de:' .. job[3]) == 1
  useQueue(1)
  return taken and 4
end
local function takeOut(jobId)
  local score = call('ZSCORE', KEYS[8], jobId)
  if score then
    call('ZREM', KEYS[8], jobId)
    return 'delayed', not isDue(score) and score or nil
  end
  if call('ZREM', KEYS[13], jobId) == 1 then
    call('HDEL', useQueue(1) .. jobId, 'finishedOn', 'processedOn', 'failedReason')
    return 'failed'
  end
end
checkTransfer()
local moved = {}
for i = rest, #ARGV - 4, 5 do
  local jobId = ARGV[i]
  local base = useQueue(1)
  local prev, later
  local refused = given(requested) and obstacle(jobId)
  if refused then
    prev = nil
  elseif call('LREM', KEYS[3], -1, jobId) == 1 then
    prev = 'wait'
  elseif call('LREM', KEYS[7], -1, jobId) == 1 then
    prev = 'paused'
  elseif call('ZREM', KEYS[4], jobId) == 1 then
    prev = 'prioritized'
  elseif given(requested) then
    prev, later = takeOut(jobId)
  elseif isDue(call('ZSCORE', KEYS[8], jobId)) and call('ZREM', KEYS[8], jobId) == 1 then
    prev = 'delayed'
  end
  moved[#moved + 1] = given(requested) and { refused or 0 } or ''
  if prev and call('EXISTS', base .. jobId) == 1 then
    local dedup = { ttl = ARGV[i + 2], flags = ARGV[i + 3], lifo = ARGV[i + 4], later = later, requested = given(requested) }
    moved[#moved] = transferJob(jobId, prev, now, dedup, ARGV[i + 1])
  end
end
return moved
