-- Composed from addDelayedJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] delayed
-- KEYS[9] active
-- KEYS[10] id
-- KEYS[11] completed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local id = ARGV[2]
local name = ARGV[3]
local data = ARGV[4]
local opts = ARGV[5]
local timestamp = ARGV[6]
local delay = ARGV[7]
local priority = ARGV[8]
local lifo = ARGV[9]
local parentKey = ARGV[10]
local parent = ARGV[11]
local scheduler = ARGV[12]
local dedupId = ARGV[13]
local dedupTtl = ARGV[14]
local dedupFlags = ARGV[15]
local defer = ARGV[16]
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
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
local function completeChild(queue, parentKey, parentId, childKey, value, now)
  call('HSET', parentKey .. ':processed', childKey, value)
  releaseParentIfReady(queue, parentKey, parentId, now)
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
local function reattach(jobKey, jobId, job, now, defer)
  local parentKey = job.parentKey
  if not parentKey then return end
  if call('ZSCORE', KEYS[11], jobId) then
    local value = call('HGET', jobKey, 'returnvalue')
    if defer then
      call('HSET', parentKey .. ':processed', jobKey, value)
    else
      local parent = cjson.decode(job.parent)
      completeChild(parent.queueKey .. ':', parentKey, parent.id, jobKey, value, now)
    end
  else
    call('SADD', parentKey .. ':dependencies', jobKey)
  end
  call('HSET', jobKey, 'parentKey', parentKey, 'parent', job.parent)
end
local function admitExisting(jobKey, jobId, job, now, defer, limit)
  local known = call('HGET', jobKey, 'parentKey')
  local free = not known or known == job.parentKey
  local there = not free and call('EXISTS', known) == 1
  if free then
    reattach(jobKey, jobId, job, now, defer)
  elseif job.parentKey and there then
    if defer then call('HSET', job.parentKey, 'flowAttachmentFailed', '1') end
    return -7
  end
  emitTrimmed(limit, 'duplicated', 'jobId', jobId)
  return { jobId, 'exists' }
end
local function admit(base, id, now, job, mode, defer, mayReplace)
  if job.parentKey and call('EXISTS', job.parentKey) == 0 then return nil, -5 end
  local number = call('INCR', KEYS[10])
  local limit, held = eventLimitAndHeld(KEYS[2], KEYS[9])
  local jobId = id
  if id == '' then jobId = number .. '' end
  local jobKey = base .. jobId
  if id ~= '' and call('EXISTS', jobKey) == 1 then
    return nil, admitExisting(jobKey, jobId, job, now, defer, limit)
  end
  local owner = mode and deduplicate(base, mode, jobId, job, now, limit, mayReplace)
  if owner then return nil, { owner, 'deduplicated' } end
  return jobId, jobKey, limit, held
end
local function attachToParent(jobKey, job)
  if job.parentKey then call('SADD', job.parentKey .. ':dependencies', jobKey) end
end
local function jobOfArguments(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
  local function orNil(argument)
    if given(argument) then return argument end
  end
  return {
    name = name, data = data, opts = opts, timestamp = timestamp, delay = delay, priority = priority,
    lifo = lifo == '1', parentKey = orNil(parentKey), parent = orNil(parent), scheduler = orNil(scheduler),
    dedupId = orNil(dedupId),
  }
end
local job = jobOfArguments(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
local mode = deduplicationOf(base, dedupId, dedupTtl, dedupFlags)
local jobId, jobKey, limit = admit(base, id, timestamp, job, mode, given(defer), true)
if not jobId then return jobKey end
storeJob(jobKey, jobId, job)
delayJob(jobId, timestamp, tonumber(delay), limit)
attachToParent(jobKey, job)
return jobId
