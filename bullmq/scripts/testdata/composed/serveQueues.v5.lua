-- Composed from serveQueues.lua and its parts. Regenerate with make composed.
-- KEYS[1] events, of the queue in use
-- KEYS[2] meta, of the queue in use
-- KEYS[3] active, of the queue in use
-- KEYS[4] wait, of the queue in use
-- KEYS[5] stalled, of the queue in use
-- KEYS[6] delayed, of the queue in use
-- KEYS[7] marker, of the queue in use
-- KEYS[8] prioritized, of the queue in use
-- KEYS[9] pc, of the queue in use
-- KEYS[10] paused, of the queue in use
-- KEYS[11] id, of the queue in use
-- KEYS[12] completed, of the queue in use
-- KEYS[13] failed, of the queue in use
-- KEYS[14] metrics:completed, of the queue in use
-- KEYS[15] metrics:failed, of the queue in use
-- KEYS[16] limiter, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'events', 'meta', 'active', 'wait', 'stalled', 'delayed', 'marker', 'prioritized', 'pc', 'paused', 'id', 'completed', 'failed', 'metrics:completed', 'metrics:failed', 'limiter' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'events', base .. 'meta', base .. 'active', base .. 'wait', nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }, others)
    keysOf[n] = KEYS
  end
  return base
end
local now = ARGV[1]
local points = ARGV[2]
local lockMs = ARGV[3]
local name = ARGV[4]
local tokens = ARGV[5]
local endings = ARGV[6]
local rest = 7
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
local function trimEvents()
  call('XTRIM', KEYS[1], 'MAXLEN', '~', eventLimit(KEYS[2]))
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
local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
end
local function finishedJobs(kinds, value, from)
  local count = #kinds
  local function column(first) return { unpack(ARGV, first, first + count - 1) } end
  local ids, tokens, values = column(from), column(from + count), nil
  local at = from + 2 * count
  if value == '' then
    values, value = column(at), nil
    at = at + count
  end
  local bytes, keeps = { string.byte(kinds, 1, count) }, nil
  if string.find(kinds, '[2367]') then
    keeps = {}
    for i = 1, count do
      if bytes[i] % 4 > 1 then
        local last = at + ARGV[at]
        local failed = last > at + 3 and at + 4
        keeps[i] = { ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], failed, last }
        at = last + 1
        if failed then bytes[i] = 0 end
      end
    end
  end
  return ids, tokens, values, value, bytes, keeps, at
end
local function appendFullJob(jobId, jobKey, baseFields, taken, at)
  if baseFields[1] and baseFields[2] and baseFields[3] and baseFields[4] and baseFields[5] and baseFields[6] then
    taken[at], taken[at + 1] = -1, jobId
    for i = 1, 6 do taken[at + 1 + i] = baseFields[i] end
    return at + 8, #baseFields[2] + #baseFields[3], '1', true
  end
  local hash = unlessWrongType(try('HGETALL', jobKey))
  if not hash then
    call('LREM', KEYS[3], 1, jobId)
    emit(KEYS[1], 'failed', 'jobId', jobId, 'failedReason', 'the key of the job holds no hash, but a '
      .. call('TYPE', jobKey).ok, 'prev', 'active')
    return
  end
  local length, starts, counts = 0, '1', true
  taken[at], taken[at + 1] = #hash, jobId
  for i = 1, #hash do taken[at + 1 + i] = hash[i] end
  for i = 1, #hash, 2 do
    local field, value = hash[i], hash[i + 1]
    length = length + #value
    if field == 'ats' then starts = toInteger(value) + 1 end
  end
  return at + 2 + #hash, length, starts, counts
end
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[5], jobId)
  return 0
end
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
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
local function delayedScore(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', KEYS[6], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local function delayJob(jobId, now, delay, limit)
  local score, due = delayedScore(now, delay)
  call('ZADD', KEYS[6], score, jobId)
  emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  signalDelayed(KEYS[7], KEYS[6])
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
  makeReady(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', isHeld(KEYS[2], KEYS[3]))
  emitTrimmed(limit, 'waiting', 'jobId', jobId)
end
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
local function claimDeduplication(mode, jobId)
  if mode.ttl > 0 and not mode.keepLast then
    call('SET', mode.key, jobId, 'PX', mode.ttl)
  else
    call('SET', mode.key, jobId)
  end
end
local function addKeptJob(base, dedupId, now)
  local later = base .. 'dn:' .. dedupId
  local kept = unlessWrongType(try('HMGET', later, 'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')) or {}
  if not kept[3] then return end
  local read, opts = pcall(cjson.decode, kept[3])
  if not read or type(opts) ~= 'table' then opts = {} end
  local fresh = call('INCR', KEYS[11]) .. ''
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
local function failParent(queue, parentKey, parentId, childKey, now)
  if call('EXISTS', parentKey) == 0 then return end
  local waits = call('ZREM', queue .. 'waiting-children', parentId) == 1
  if not waits and call('ZREM', queue .. 'delayed', parentId) == 1 then
    call('HSET', parentKey, 'delay', 0)
    waits = true
  end
  if waits or not call('ZSCORE', queue .. 'failed', parentId) then
    call('HSET', parentKey, 'defa', 'child ' .. childKey .. ' failed')
  end
  if waits then requeueParent(queue, parentKey, parentId, now) end
end
local function toParent(json)
  local read, parent = pcall(cjson.decode, json or '')
  if read and type(parent) == 'table' and type(parent.queueKey) == 'string' and type(parent.id) == 'string' then
    return parent
  end
end
local function failChild(parent, childKey, reason, now)
  if not (parent.fpof or parent.cpof or parent.idof or parent.rdof) then return end
  local queue, parentKey = parent.queueKey .. ':', parent.queueKey .. ':' .. parent.id
  if call('SREM', parentKey .. ':dependencies', childKey) == 0 then return end
  if parent.fpof then
    call('ZADD', parentKey .. ':unsuccessful', now, childKey)
    failParent(queue, parentKey, parent.id, childKey, now)
  elseif parent.cpof then
    call('HSET', parentKey .. ':failed', childKey, reason)
    releaseParent(queue, parentKey, parent.id, now)
  else
    releaseParentIfReady(queue, parentKey, parent.id, now)
    if parent.idof then call('HSET', parentKey .. ':failed', childKey, reason) end
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
local function evictJobs(base, ids)
  for i = 1, #ids do
    detachFromParent(base .. ids[i], false, base)
    deleteJob(base .. ids[i])
  end
end
local function evictOlder(base, setAt, now, age, limit)
  local edge = now - age * 1000
  local old = call('ZREVRANGEBYSCORE', setAt, edge, '-inf', 'LIMIT', 0, limit)
  if #old == 0 then return end
  evictJobs(base, old)
  if #old < limit then
    call('ZREMRANGEBYSCORE', setAt, '-inf', edge)
    return
  end
  for from = 1, #old, 7000 do
    call('ZREM', setAt, unpack(old, from, math.min(from + 6999, #old)))
  end
end
local function evictBeyond(base, setAt, count)
  evictJobs(base, call('ZREVRANGE', setAt, count, -1))
  call('ZREMRANGEBYRANK', setAt, 0, -(count + 1))
end
local function collectMetrics(statsAt, points, now, jobs)
  local before = call('HINCRBY', statsAt, 'count', jobs) - jobs
  local last = call('HMGET', statsAt, 'prevTS', 'prevCount')
  if not last[1] then
    call('HSET', statsAt, 'prevTS', now, 'prevCount', 0)
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(last[1] / 60000), tonumber(points))
  if minutes <= 0 then return end
  local row = { before - last[2] }
  for i = 2, minutes do row[i] = 0 end
  for from = 1, minutes, 7000 do
    call('LPUSH', statsAt .. ':data', unpack(row, from, math.min(from + 6999, minutes)))
  end
  call('LTRIM', statsAt .. ':data', 0, points - 1)
  call('HSET', statsAt, 'prevCount', before, 'prevTS', now)
end
local function releaseDeduplication(base, dedupId, jobId, now)
  local key = base .. 'de:' .. dedupId
  local left = call('PTTL', key)
  if left == 0 or (left == -1 and call('GET', key) == jobId) then call('DEL', key) end
  addKeptJob(base, dedupId, now)
end
local function notifyParent(jobKey, parentKey, parent, outcome, value, now)
  if outcome == 'failed' then
    if parent then failChild(parent, jobKey, value, now) end
    return
  end
  local queue, parentId
  if parent then
    queue, parentId = parent.queueKey .. ':', parent.id
  else
    queue, parentId = splitKey(parentKey)
  end
  if parentId and call('SREM', parentKey .. ':dependencies', jobKey) == 1 then
    completeChild(queue, parentKey, parentId, jobKey, value, now)
  end
end
local function finishedState(outcome)
  if outcome == 'completed' then return KEYS[12], KEYS[14], 'returnvalue' end
  return KEYS[13], KEYS[15], 'failedReason'
end
local function finishJob(base, now, job, points)
  local jobKey = base .. job.id
  local setAt, statsAt, field = finishedState(job.outcome)
  if call('EXISTS', jobKey) == 0 then return -1 end
  if job.outcome == 'completed' then
    if (unlessWrongType(try('SCARD', jobKey .. ':dependencies')) or 0) > 0 then return -4 end
    if (unlessWrongType(try('ZCARD', jobKey .. ':unsuccessful')) or 0) > 0 then return -9 end
  end
  local refused = releaseLock(jobKey, job.id, job.token)
  if refused < 0 then return refused end
  setFields(jobKey, job.from, job.to)
  local link = call('HMGET', jobKey, 'parentKey', 'parent', 'deid', 'atm', 'defa')
  if call('LREM', KEYS[3], '-1', job.id) == 0 then return -3 end
  trimEvents()
  local trouble
  local function tolerate(step, ...)
    local fine, why = pcall(step, ...)
    if not fine then trouble = why end
  end
  if link[3] then tolerate(releaseDeduplication, base, link[3], job.id, now) end
  if link[1] or link[2] then
    tolerate(notifyParent, jobKey, link[1] or '', toParent(link[2]), job.outcome, job.value, now)
  end
  local made = toInteger(link[4]) + 1
  call('HSET', jobKey, 'atm', made)
  local count = tonumber(job.keepCount)
  if count == 0 then
    deleteJob(jobKey)
    if link[1] and link[1] ~= '' then tolerate(detachChild, jobKey, link[1], false, nil, link[3]) end
  else
    call('ZADD', setAt, now, job.id)
    call('HSET', jobKey, field, job.value, 'finishedOn', now)
    if link[5] or job.outcome == 'failed' then call('HDEL', jobKey, 'defa') end
    if given(job.keepAge) then
      tolerate(evictOlder, base, setAt, now, tonumber(job.keepAge), tonumber(job.keepLimit) or 1000)
    end
    if count and count > 0 then tolerate(evictBeyond, base, setAt, count) end
  end
  emit(KEYS[1], job.outcome, 'jobId', job.id, field, job.value, 'prev', 'active')
  if job.outcome == 'failed' and made >= (tonumber(job.attempts) or 0) then
    emit(KEYS[1], 'retries-exhausted', 'jobId', job.id, 'attemptsMade', made)
  end
  if given(points) then tolerate(collectMetrics, statsAt, points, now, 1) end
  if trouble then error(trouble, 0) end
  return 0
end
local function removeFromActive(ids)
  local found, others, count = {}, {}, 0
  for i = 1, #ids do found[ids[i]] = false end
  local popped = ids[2] and call('RPOP', KEYS[3], #ids) or {}
  for i = 1, #popped do
    local id = popped[i]
    if found[id] == false then
      found[id], count = true, count + 1
    else
      others[#others + 1] = id
    end
  end
  if others[1] then
    local back = {}
    for i = #others, 1, -1 do back[#back + 1] = others[i] end
    call('RPUSH', KEYS[3], unpack(back))
  end
  if count == #ids then return end
  for id, is in pairs(found) do
    if not is then found[id] = call('LREM', KEYS[3], '-1', id) > 0 end
  end
  return found
end
local function attemptIfPlain(jobKey)
  if call('EXISTS', jobKey .. ':unsuccessful') > 0 then return end
  local set = try('HMGET', jobKey, 'ats', 'atm', 'parentKey', 'parent', 'deid', 'defa')
  if set[1] and not (set[3] or set[4] or set[5] or set[6]) then return toInteger(set[2]) + 1 end
end
local function finishAlike(base, now, ids, keys, values, value, made, keeps, points)
  local ended, to, stream = {}, 0, KEYS[1]
  for i = 1, #ids do
    if keeps and keeps[i] and keeps[i][1] == '0' then
      deleteJob(keys[i])
    else
      call('HSET', keys[i], 'atm', made[i] or '1', 'returnvalue', value or values[i], 'finishedOn', now)
      ended[to + 1] = now
      to = to + 2
      ended[to] = ids[i]
    end
  end
  if to > 0 then
    call('ZADD', KEYS[12], unpack(ended))
    local keep = keeps and keeps[1]
    if keep and keep[1] ~= '0' then
      if given(keep[2]) then
        for _ = 1, #ids do evictOlder(base, KEYS[12], now, tonumber(keep[2]), tonumber(keep[3]) or 1000) end
      end
      local count = tonumber(keep[1])
      if count and count > 0 then evictBeyond(base, KEYS[12], count) end
    end
  end
  for i = 1, #ids do
    if i == #ids then trimEvents() end -- before the last event, as finishJob does
    call('XADD', stream, '*', 'event', 'completed', 'jobId', ids[i], 'returnvalue', value or values[i], 'prev', 'active')
  end
  if given(points) then collectMetrics(KEYS[14], points, now, #ids) end
end
local function omit(list, first, some)
  local rest, n = {}, 0
  for i = 1, first do
    if not some[i] then
      n = n + 1
      rest[n] = list[i]
    end
  end
  return rest
end
local function finishByRetention(base, now, ids, keys, values, value, made, keeps, points)
  local kinds, others = { '' }, { [''] = {} }
  for i = 1, #ids do
    local keep, kind = keeps[i], ''
    if keep and keep[1] ~= '0' then kind = table.concat(keep, ' ', 1, 3) end
    if not others[kind] then
      kinds[#kinds + 1], others[kind] = kind, {}
      for n = 1, i - 1 do others[kind][n] = true end
    end
    for k, rest in pairs(others) do rest[i] = k ~= kind end
  end
  for _, kind in ipairs(kinds) do
    local of = function(list) return list and omit(list, #ids, others[kind]) end
    local some = of(ids)
    if some[1] then finishAlike(base, now, some, of(keys), of(values), value, of(made), of(keeps), points) end
  end
end
local function finishBatch(base, now, ids, tokens, values, value, keeps, kinds, size, points)
  local count, left, anyLeft = #ids, {}, false
  local keys, locks, pending = { unpack(ids) }, { unpack(ids) }, { unpack(ids) }
  for i = 1, count do
    local jobKey = base .. ids[i]
    keys[i], locks[i], pending[i] = jobKey, jobKey .. ':lock', jobKey .. ':dependencies'
  end
  if call('EXISTS', unpack(pending)) > 0 then
    for i = 1, count do left[i] = true end
    return left
  end
  local owners, made = call('MGET', unpack(locks)), {}
  for i = 1, count do
    local owned = owners[i] == tokens[i]
    if not owned or kinds[i] < 52 or try('HLEN', keys[i]) ~= size then
      if owned and not (keeps and keeps[i] and keeps[i][4]) then made[i] = attemptIfPlain(keys[i]) end
      if not made[i] then left[i], anyLeft = true, true end
    end
  end
  local ending = anyLeft and omit(ids, count, left) or ids
  local found = ending[1] and removeFromActive(ending)
  if found then
    for i = 1, count do
      if not left[i] and not found[ids[i]] then left[i], anyLeft = true, true end
    end
  end
  if anyLeft then
    local those = function(list) return list and omit(list, count, left) end
    ids, keys, locks, made, values, keeps = those(ids), those(keys), those(locks), those(made), those(values), those(keeps)
    if not ids[1] then return left end
  end
  call('DEL', unpack(locks))
  call('SREM', KEYS[5], unpack(ids))
  if keeps then
    finishByRetention(base, now, ids, keys, values, value, made, keeps, points)
  else
    finishAlike(base, now, ids, keys, values, value, made, nil, points)
  end
  return left
end
local function finishMany(base, now, points, name, ids, tokens, values, shared, bytes, keeps)
  local refused, gone = {}, {}
  local left = finishBatch(base, now, ids, tokens, values, shared, keeps, bytes, name == '' and 8 or 9, points)
  if not next(left) then return refused, gone end
  for i = 1, #ids do
    if left[i] then
      local more = keeps and keeps[i] or {}
      local failed = more[4]
      local could, code = pcall(finishJob, base, now, {
        id = ids[i], token = tokens[i], value = shared or values[i], outcome = failed and 'failed' or 'completed',
        keepCount = more[1], keepAge = more[2], keepLimit = more[3],
        attempts = failed and ARGV[failed], from = failed and failed + 1 or 1, to = failed and more[5] or 0,
      }, points)
      if not could or code < 0 then
        if type(code) == 'table' then code = code.err end -- from Redis 7 on
        gone[i], refused[#refused + 1], refused[#refused + 2] = true, i, code
      end
    end
  end
  return refused, gone
end
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', KEYS[16])) then return 0 end
  local left = call('PTTL', KEYS[16])
  if left == 0 then call('DEL', KEYS[16]) end
  return left > 0 and left or 0
end
local function promoteJobs(base, ids, held)
  call('ZREM', KEYS[6], unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', waitList(base), id)
    else
      call('ZADD', KEYS[8], priorityScore(KEYS[9], priority), id)
    end
    emit(KEYS[1], 'waiting', 'jobId', id, 'prev', 'delayed')
    unlessWrongType(try('HSET', base .. id, 'delay', 0)) -- the next fetch drops a key that is not a hash
  end
  signalReady(KEYS[7], held)
end
local function promoteDelayed(base, now, held)
  local due = call('ZRANGEBYSCORE', KEYS[6], '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promoteJobs(base, due, held) end
end
local function popReady(most)
  local ids, asked = {}, most
  repeat
    local popped = call('RPOP', KEYS[4], asked) or {}
    local all = #popped == asked
    if string.find(table.concat(popped, ' '), '0:', 1, true) then
      for i = 1, #popped do
        if string.sub(popped[i], 1, 2) ~= '0:' then ids[#ids + 1] = popped[i] end
      end
    elseif not ids[1] then
      ids = popped
    else
      for i = 1, #popped do ids[#ids + 1] = popped[i] end
    end
    asked = most - #ids
  until asked == 0 or not all
  if #ids < most then
    local lowest = call('ZPOPMIN', KEYS[8], most - #ids)
    for i = 1, #lowest, 2 do ids[#ids + 1] = lowest[i] end
    if #ids < most then call('DEL', KEYS[9]) end
  end
  if ids[1] then call('LPUSH', KEYS[3], unpack(ids)) end
  return ids
end
local function fetchJobs(base, now, worker, tokens, tidy)
  local set = call('HMGET', KEYS[2], 'paused', 'concurrency', 'max', 'duration')
  local most = #tokens
  local allowed = tonumber(set[2])
  if allowed then most = math.min(most, math.ceil(allowed) - call('LLEN', KEYS[3])) end
  local held = set[1] or most <= 0
  promoteDelayed(base, now, held)
  local max = tonumber(set[3]) or tonumber(worker.limitMax)
  local wait = rateLimitTtl(max)
  if wait > 0 then return { {}, wait, 0 } end
  if held then return { {}, 0, 0 } end
  local taken, at, count, length, atOnce, dry = {}, 1, 0, 0, not max and worker.atOnce or 1, false
  local perMs, lockMs, owner, stream = worker.limitMs or set[4], worker.lockMs, worker.name, KEYS[1]
  local lastName, lastOpts, none = nil, nil, {}
  repeat
    local asked = math.min(atOnce, most - count)
    local ids = popReady(asked)
    dry = not ids[asked]
    for i = 1, #ids do
      local jobId = ids[i]
      local jobKey = base .. jobId
      local baseFields = try('HLEN', jobKey) == 6
        and call('HMGET', jobKey, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority') or none
      local name, data, opts, timestamp = baseFields[1], baseFields[2], baseFields[3], baseFields[4]
      local following, starts, counts = at + 5, '1', max
      if name and data and opts and timestamp and baseFields[5] == '0' and baseFields[6] == '0' then
        taken[at] = jobId
        taken[at + 1] = name ~= lastName and name
        taken[at + 2] = data
        taken[at + 3] = opts ~= lastOpts and opts
        taken[at + 4] = timestamp
        length = length + #data + #opts
        lastName, lastOpts = name, opts
      else
        local more, counted
        following, more, starts, counted = appendFullJob(jobId, jobKey, baseFields, taken, at)
        length, counts = length + (more or 0), counted and max
      end
      if following then
        at, count = following, count + 1
        if counts and call('INCR', KEYS[16]) == 1 then
          call('PEXPIRE', KEYS[16], math.abs(toInteger(perMs)))
        end
        local token = tokens[count]
        if token ~= '0' then
          call('SET', jobKey .. ':lock', token, 'PX', lockMs)
        end
        call('XADD', stream, '*', 'event', 'active', 'jobId', jobId, 'prev', 'waiting')
        if owner == '' then
          call('HSET', jobKey, 'processedOn', now, 'ats', starts)
        else
          call('HSET', jobKey, 'processedOn', now, 'ats', starts, 'pb', owner)
        end
      end
    end
    if dry or length > 1000000 then break end
    if not max and length < 10000 * count then atOnce = 50 end
  until count >= most or rateLimitTtl(max) > 0
  if tidy and dry then
    call('ZREM', KEYS[7], '0')
  elseif count > 0 then
    signalReady(KEYS[7], false)
    return { taken, 0, 0, now }, count, length, dry
  end
  local due = nextDue(KEYS[6])
  if due or count > 0 then return { taken, 0, toInteger(due) }, count, length, dry end
  return nil, 0, 0, dry
end
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
local function jobsWait()
  if call('LLEN', KEYS[4]) > 0 or call('ZCARD', KEYS[8]) > 0 then return true end
  if call('LLEN', KEYS[3]) == 0 then emit(KEYS[1], 'drained') end
  return false
end
local at = rest + tokens
local ended, ending = {}, {}
for i = 1, tonumber(endings) do
  local queue, kinds = ARGV[at] + 0, ARGV[at + 1]
  local base = useQueue(queue)
  local ids, owners, values, shared, bytes, keeps, following = finishedJobs(kinds, ARGV[at + 2], at + 3)
  local fine, refused = orText(pcall(finishMany, base, now, points, name, ids, owners, values, shared, bytes, keeps))
  if fine and #refused < 2 * #kinds then ending[#ending + 1] = { i, queue } end
  ended[i], at = refused, following
end
local worker = { lockMs = lockMs, name = name }
local taken, fetched, length = {}, {}, 0
local token, last = rest, rest + tokens - 1
while at < #ARGV and token <= last and length < 1000000 do
  local queue = ARGV[at] + 0
  local base, till = useQueue(queue), math.min(token + ARGV[at + 1] - 1, last)
  local limit = ARGV[at + 2]
  if limit == '' then
    worker.limitMax, worker.limitMs = nil, nil
  else
    worker.limitMax, worker.limitMs = string.match(limit, '^(%d+):(%d+)$')
  end
  local fine, jobs, count, more, dry = orText(pcall(fetchJobs, base, now, worker, { unpack(ARGV, token, till) }, true))
  fetched[queue] = jobs
  if fine then
    jobs = jobs or { {}, 0, 0 }
    jobs[4] = dry and 1 or 0
    token, length = token + (count or 0), length + (more or 0)
    worker.atOnce = length < 10000 * (token - rest) and 10 or 1
  else
    token = till + 1
  end
  taken[#taken + 1] = jobs
  at = at + 3
end
local waiting = {}
for i = 1, #ending do
  local index, queue = ending[i][1], ending[i][2]
  if not fetched[queue] then
    useQueue(queue)
    local fine, some = orText(pcall(jobsWait))
    if not fine then
      ended[index] = some
    elseif some then
      waiting[#waiting + 1] = index
    end
  end
end
return { ended, taken, waiting }
