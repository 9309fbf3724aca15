-- Composed from updateJobScheduler.lua and its parts. Regenerate with make composed.
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
local producer = ARGV[4]
local due = ARGV[5]
local every = ARGV[6]
local opts = ARGV[7]
local data = ARGV[8]
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function toInterval(text)
  local every = tonumber(text)
  if every and every >= 1 and every <= 9007199254740991 then return every end
end
local function nextRun(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
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
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end
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
local prev = call('ZSCORE', KEYS[10], scheduler)
if not prev then return nil end
local recordKey = KEYS[10] .. ':' .. scheduler
local record = unlessWrongType(try('HMGET', recordKey, 'name', 'data', 'every', 'offset', 'ic'))
if not (record and record[1]) then return nil end -- every scheduler has a name
local read, options = pcall(cjson.decode, opts)
if not read then return redis.error_reply('UNREADABLE ' .. options) end
local interval = toInterval(record[3]) or toInterval(every)
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  due = nextRun(tonumber(prev), interval, tonumber(now), toInteger(record[4] or own))
end
if producer ~= 'repeat:' .. scheduler .. ':' .. prev or not given(due) then return nil end
local jobId = 'repeat:' .. scheduler .. ':' .. due
local limit = eventLimit(KEYS[2])
if call('EXISTS', base .. jobId) == 1 then
  emitTrimmed(limit, 'duplicated', 'jobId', jobId)
  return nil
end
options.delay = math.max(due - now, 0)
options.jobId = jobId
local written, text = pcall(cjson.encode, options)
if not written then return redis.error_reply('UNREADABLE ' .. text) end
call('ZADD', KEYS[10], due, scheduler)
local isLegacy = not record[5]
isLegacy = true
if not record[2] and isLegacy and data ~= '{}' then
  call('HSET', recordKey, 'data', data)
  record[2] = data
end
call('HSET', recordKey, 'ic', toInteger(record[5]) + 1)
call('INCR', KEYS[11])
local job = {
  name = record[1], data = record[2] or '{}', opts = text, timestamp = now, delay = options.delay,
  priority = toNumber(options.priority), lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and toText(options.de.id) or nil,
}
storeJob(base .. jobId, jobId, job)
enqueueJob(base, jobId, job, now, limit)
call('HSET', base .. producer, 'nrjid', jobId)
return jobId
