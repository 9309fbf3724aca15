-- Composed from addJobScheduler.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] delayed
-- KEYS[8] active
-- KEYS[9] repeat
-- KEYS[10] paused
-- KEYS[11] id

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local scheduler = ARGV[2]
local now = ARGV[3]
local name = ARGV[4]
local data = ARGV[5]
local template = ARGV[6]
local opts = ARGV[7]
local due = ARGV[8]
local every = ARGV[9]
local pattern = ARGV[10]
local tz = ARGV[11]
local limit = ARGV[12]
local startDate = ARGV[13]
local endDate = ARGV[14]
local offset = ARGV[15]
local resumed = ARGV[16]
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function firstRun(every, now, offset, startDate)
  if startDate then return math.floor(math.max(startDate, now)) end
  if offset <= 0 then return math.floor(now) end
  local due = math.floor(now / every) * every + offset
  if due <= now then due = due + every end
  return math.floor(due)
end
local function nextRun(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
end
local function offsetOf(due, every, offset)
  if offset ~= 0 then return math.floor(offset) end
  return math.floor(due - math.floor(due / every) * every)
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
local function delayedScore(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', KEYS[7], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local function delayJob(jobId, now, delay, limit)
  local score, due = delayedScore(now, delay)
  call('ZADD', KEYS[7], score, jobId)
  emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  signalDelayed(KEYS[6], KEYS[7])
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
  makeReady(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', isHeld(KEYS[2], KEYS[8]))
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
local function pausedSchedulers(base)
  return string.sub(base, 1, -2) .. '@x:paused-schedulers'
end
local function forgetPaused(base, scheduler)
  return try('HDEL', pausedSchedulers(base), scheduler) == 1
end
local recordKey = KEYS[9] .. ':' .. scheduler
local trimTo = eventLimit(KEYS[2])
local prev = tonumber(call('ZSCORE', KEYS[9], scheduler))
local options = cjson.decode(opts)
local interval = tonumber(every)
now = tonumber(now)
if given(resumed) then
  local stored = call('HGET', pausedSchedulers(base), scheduler)
  if not stored then return { '', 0 } end
  if prev then
    forgetPaused(base, scheduler)
    return { '', 1 }
  end
  stored = cjson.decode(stored)
  prev = tonumber(stored[1])
  call('DEL', recordKey)
  call('HSET', recordKey, unpack(stored, 3))
end
local function giveUp()
  if given(resumed) then call('DEL', recordKey) end
end
local shift, restarted = tonumber(offset), false
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  local wanted = shift or own or 0
  local from = prev and (given(resumed) and prev - interval or prev)
  if prev and tonumber(unlessWrongType(try('HGET', recordKey, 'every'))) ~= interval then
    from, restarted = nil, true
  end
  due = from and nextRun(from, interval, now, wanted) or firstRun(interval, now, wanted, tonumber(startDate))
  shift = offsetOf(due, interval, wanted)
end
local function replaced(jobId)
  local gone = call('ZREM', KEYS[7], jobId) == 1 or call('ZREM', KEYS[4], jobId) == 1
  if not gone then
    local list = call('HEXISTS', KEYS[2], 'paused') == 1 and KEYS[10] or KEYS[3]
    gone = call('LREM', list, 1, jobId) == 1
  end
  if gone then discardJob(base, jobId) end
  return gone
end
local stored = tonumber(offset)
local swapped = false
if prev then
  local pending = 'repeat:' .. scheduler .. ':' .. prev
  swapped = call('EXISTS', base .. pending) == 1 and replaced(pending)
end
if swapped then
  if interval and not restarted then due = prev end
else
  stored = shift or 0
end
local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('EXISTS', base .. jobId) == 1 then
  if not interval then
    if not swapped then
      giveUp()
      return -10
    end
  else
    local tries = 0
    repeat
      if tries == 32 then
        giveUp()
        return -11
      end
      tries = tries + 1
      due = due + interval
      jobId = 'repeat:' .. scheduler .. ':' .. due
    until call('EXISTS', base .. jobId) == 0
  end
end
call('ZADD', KEYS[9], due, scheduler)
local known = unlessWrongType(try('HMGET', recordKey, 'offset', 'ic')) or {}
local record = { 'name', name }
local function keep(field, value)
  if given(value) then
    record[#record + 1] = field
    record[#record + 1] = value
  end
end
keep('tz', tz)
keep('limit', limit)
keep('pattern', pattern)
keep('startDate', startDate)
keep('endDate', endDate)
keep('every', every)
keep('offset', stored or (known[1] and tonumber(known[1])) or nil)
if template ~= '{}' then keep('opts', template) end
if data ~= '{}' then keep('data', data) end
keep('ic', known[2] or 1)
forgetPaused(base, scheduler)
call('DEL', recordKey)
call('HSET', recordKey, unpack(record))
call('INCR', KEYS[11])
options.delay = math.max(due - now, 0)
options.jobId = jobId
local job = {
  name = name, data = data, opts = cjson.encode(options), timestamp = now, delay = options.delay,
  priority = options.priority or 0, lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and options.de.id or nil,
}
storeJob(base .. jobId, jobId, job)
enqueueJob(base, jobId, job, now, trimTo)
return { jobId, options.delay }
