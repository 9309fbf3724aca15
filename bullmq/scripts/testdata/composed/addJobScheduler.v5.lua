-- Composed from addJobScheduler.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] paused
-- KEYS[8] delayed
-- KEYS[9] active
-- KEYS[10] repeat
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
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function firstSlot(every, now, offset, startDate)
  if startDate then return math.floor(math.max(startDate, now)) end
  if offset <= 0 then return math.floor(now) end
  local due = math.floor(now / every) * every + offset
  if due <= now then due = due + every end
  return math.floor(due)
end
local function nextSlot(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
end
local function shiftOf(due, every, offset)
  if offset ~= 0 then return math.floor(offset) end
  return math.floor(due - math.floor(due / every) * every)
end
local function capOf(metaAt, kept)
  if kept and string.find(kept, '^%d+$') then return kept end
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function cap(metaAt)
  return capOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function say(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function sayTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
local function slot(now, delay)
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
  local score, due = slot(now, delay)
  call('ZADD', KEYS[8], score, jobId)
  sayTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  wakeAt(KEYS[6], KEYS[8])
end
local function store(jobKey, jobId, job)
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
  say(KEYS[1], 'added', 'jobId', jobId, 'name', job.name)
end
local function enqueue(base, jobId, job, now, limit)
  local delay = tonumber(job.delay)
  if delay ~= 0 then
    delayJob(jobId, now, delay, limit)
    return
  end
  ready(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', held(KEYS[2], KEYS[9]))
  sayTrimmed(limit, 'waiting', 'jobId', jobId)
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
local recordKey = KEYS[10] .. ':' .. scheduler
local trimTo = cap(KEYS[2])
local prev = tonumber(call('ZSCORE', KEYS[10], scheduler))
local options = cjson.decode(opts)
local interval = tonumber(every)
now = tonumber(now)
local shift, restarted = tonumber(offset), false
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  local wanted = shift or own or 0
  local from = prev
  if prev and tonumber(orNothing(try('HGET', recordKey, 'every'))) ~= interval then
    from, restarted = nil, true
  end
  due = from and nextSlot(from, interval, now, wanted) or firstSlot(interval, now, wanted, tonumber(startDate))
  shift = shiftOf(due, interval, wanted)
end
local function replaced(jobId)
  local gone = call('ZREM', KEYS[8], jobId) == 1 or call('ZREM', KEYS[4], jobId) == 1
  if not gone then
    local list = call('HEXISTS', KEYS[2], 'paused') == 1 and KEYS[7] or KEYS[3]
    gone = call('LREM', list, 1, jobId) == 1
  end
  if gone then discard(base, jobId) end
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
    if not swapped then return -10 end
  else
    local tries = 0
    repeat
      if tries == 32 then return -11 end
      tries = tries + 1
      due = due + interval
      jobId = 'repeat:' .. scheduler .. ':' .. due
    until call('EXISTS', base .. jobId) == 0
  end
end
call('ZADD', KEYS[10], due, scheduler)
local known = orNothing(try('HMGET', recordKey, 'offset', 'ic')) or {}
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
store(base .. jobId, jobId, job)
enqueue(base, jobId, job, now, trimTo)
return { jobId, options.delay }
