-- Composed from moveFailed.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized
-- KEYS[5] pc
-- KEYS[6] marker
-- KEYS[7] delayed
-- KEYS[8] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local from = ARGV[2]
local since = ARGV[3]
local count = ARGV[4]
local skip = ARGV[5]
local now = ARGV[6]
local cancelled = ARGV[7]
local whole = ARGV[8]
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
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
local function hasRunningChildren(jobKey)
  local pending = unlessWrongType(try('SMEMBERS', jobKey .. ':dependencies')) or {}
  for i = 1, #pending do
    local queue, id = splitKey(pending[i])
    if queue and call('EXISTS', pending[i]) == 1 and not unlessWrongType(try('ZSCORE', queue .. 'failed', id)) then
      return true
    end
  end
  return false
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
local function letterIdOf(queueKey, jobId, n)
  local id = string.match(queueKey, '[^:]*$') .. '-' .. string.gsub(jobId, ':', '_')
  if n > 1 then id = id .. '-' .. n end
  return id
end
local function isCancelText(reason)
  return reason == 'cancelled' or string.sub(reason, 1, 11) == 'cancelled: '
end
local queueKey = string.sub(from, 1, -2)
local found = call('ZRANGEBYSCORE', from .. 'failed', since, '+inf', 'WITHSCORES', 'LIMIT', skip, count)
local stay, pending, letters = 0, 0, {}
local limit, limitFrom
local function json(value)
  return (string.gsub(cjson.encode(value), '\\/', '/'))
end
local function integerText(number)
  return string.format('%.0f', toInteger(number))
end
local function freeLetterId(jobId)
  local n = 1
  while call('EXISTS', base .. letterIdOf(queueKey, jobId, n)) == 1 do n = n + 1 end
  return letterIdOf(queueKey, jobId, n)
end
local function wasCancelled(job)
  return job.cancelled and isCancelText(job.failedReason or '')
end
local function optsOf(jobId, job, failedAt)
  local text = '{"attempts":0'
  local read, opts = pcall(cjson.decode, job.opts or '')
  if read and type(opts) == 'table' then
    if type(opts.tm) == 'string' then text = text .. ',"tm":' .. json(opts.tm) end
    if opts.omc == true then text = text .. ',"omc":true' end
  end
  return text .. ',"deadLetter":{"queue":' .. json(queueKey) .. ',"id":' .. json(jobId) .. ',"reason":' ..
    json(job.failedReason or '') .. (wasCancelled(job) and ',"cancelled":true' or '') .. ',"attemptsMade":' ..
    integerText(toInteger(job.attemptsMade) + toInteger(job.atm)) .. ',"failedAt":' .. failedAt .. '}}'
end
local function move(jobId, score)
  local jobKey = from .. jobId
  local hash = unlessWrongType(try('HGETALL', jobKey)) or {}
  if #hash == 0 then -- a job that is gone
    call('ZREM', from .. 'failed', jobId)
    return
  end
  local job, others = {}, {}
  for i = 1, #hash, 2 do
    job[hash[i]] = hash[i + 1]
    if hash[i] ~= 'name' and hash[i] ~= 'data' then
      others[#others + 1] = hash[i]
      others[#others + 1] = hash[i + 1]
    end
  end
  local stays = not job.name or wasCancelled(job) and not given(cancelled)
  local waits = not stays and hasRunningChildren(jobKey)
  if waits then pending = pending + 1 end
  if stays or waits then
    stay = stay + 1
    return
  end
  if not limit then limit, limitFrom = eventLimit(KEYS[2]), eventLimit(from .. 'meta') end
  local failedAt = integerText(job.finishedOn or score)
  local letterId = freeLetterId(jobId)
  local letterKey = base .. letterId
  local letter = {
    name = job.name, data = job.data or '{}', opts = optsOf(jobId, job, failedAt), timestamp = now, delay = '0',
    priority = '0',
  }
  call('ZREM', from .. 'failed', jobId)
  relocateParts(jobKey, letterKey)
  call('DEL', jobKey)
  call('XADD', from .. 'events', 'MAXLEN', '~', limitFrom, '*', 'event', 'removed', 'jobId', jobId, 'prev', 'failed')
  storeJob(letterKey, letterId, letter)
  call('HSET', letterKey, 'original', json(others))
  if job.failedReason then call('HSET', letterKey, 'failedReason', job.failedReason) end
  if job.stacktrace then call('HSET', letterKey, 'stacktrace', job.stacktrace) end
  enqueueJob(base, letterId, letter, now, limit)
  letters[#letters + 1] = letterId
  if given(whole) then letters[#letters + 1] = call('HGETALL', letterKey) end
end
if #found > 0 then checkRename(from, base) end
for i = 1, #found, 2 do move(found[i], found[i + 1]) end
return { #found / 2, stay, pending, unpack(letters) }
