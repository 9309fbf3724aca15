-- Composed from moveToDelayed.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled
-- KEYS[2] events
-- KEYS[3] meta
-- KEYS[4] delayed
-- KEYS[5] marker
-- KEYS[6] limiter
-- KEYS[7] wait
-- KEYS[8] prioritized
-- KEYS[9] pc
-- KEYS[10] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local jobId = ARGV[3]
local token = ARGV[4]
local delay = ARGV[5]
local free = ARGV[6]
local fetch = ARGV[7]
local lockMs = ARGV[8]
local name = ARGV[9]
local limitMax = ARGV[10]
local limitMs = ARGV[11]
local rest = 12
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
local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
end
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[1], jobId)
  return 0
end
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
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
  call('XADD', KEYS[2], 'MAXLEN', '~', limit, '*', 'event', event, ...)
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
  local taken = call('ZREVRANGEBYSCORE', KEYS[4], highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end
local function waitList(queue)
  return queue .. 'wait'
end
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', KEYS[6])) then return 0 end
  local left = call('PTTL', KEYS[6])
  if left == 0 then call('DEL', KEYS[6]) end
  return left > 0 and left or 0
end
local function priorityScore(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end
local function promoteJobs(base, ids, held)
  call('ZREM', KEYS[4], unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', waitList(base), id)
    else
      call('ZADD', KEYS[8], priorityScore(KEYS[9], priority), id)
    end
    emit(KEYS[2], 'waiting', 'jobId', id, 'prev', 'delayed')
    unlessWrongType(try('HSET', base .. id, 'delay', 0)) -- the next fetch drops a key that is not a hash
  end
  signalReady(KEYS[5], held)
end
local function promoteDelayed(base, now, held)
  local due = call('ZRANGEBYSCORE', KEYS[4], '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promoteJobs(base, due, held) end
end
local function appendFullJob(jobId, jobKey, baseFields, taken, at)
  if baseFields[1] and baseFields[2] and baseFields[3] and baseFields[4] and baseFields[5] and baseFields[6] then
    taken[at], taken[at + 1] = -1, jobId
    for i = 1, 6 do taken[at + 1 + i] = baseFields[i] end
    return at + 8, #baseFields[2] + #baseFields[3], '1', true
  end
  local hash = unlessWrongType(try('HGETALL', jobKey))
  if not hash then
    call('LREM', KEYS[10], 1, jobId)
    emit(KEYS[2], 'failed', 'jobId', jobId, 'failedReason', 'the key of the job holds no hash, but a '
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
    if field == 'defa' then counts = false end
  end
  return at + 2 + #hash, length, starts, counts
end
local function popReady(most)
  local ids, asked = {}, most
  repeat
    local popped = call('RPOP', KEYS[7], asked) or {}
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
  if ids[1] then call('LPUSH', KEYS[10], unpack(ids)) end
  return ids
end
local function fetchJobs(base, now, worker, tokens, tidy)
  local set = call('HMGET', KEYS[3], 'paused', 'concurrency', 'max', 'duration')
  local most = #tokens
  local allowed = tonumber(set[2])
  if allowed then most = math.min(most, math.ceil(allowed) - call('LLEN', KEYS[10])) end
  local held = set[1] or most <= 0
  promoteDelayed(base, now, held)
  local max = tonumber(set[3]) or tonumber(worker.limitMax)
  local wait = rateLimitTtl(max)
  if wait > 0 then return { {}, wait, 0 } end
  if held then return { {}, 0, 0 } end
  local taken, at, count, length, atOnce, dry = {}, 1, 0, 0, not max and worker.atOnce or 1, false
  local perMs, lockMs, owner, stream = worker.limitMs or set[4], worker.lockMs, worker.name, KEYS[2]
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
        if counts and call('INCR', KEYS[6]) == 1 then
          call('PEXPIRE', KEYS[6], math.abs(toInteger(perMs)))
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
    call('ZREM', KEYS[5], '0')
  elseif count > 0 then
    signalReady(KEYS[5], false)
    return { taken, 0, 0, now }, count, length, dry
  end
  local due = nextDue(KEYS[4])
  if due or count > 0 then return { taken, 0, toInteger(due) }, count, length, dry end
  return nil, 0, 0, dry
end
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function workerOptions(lockMs, name, limitMax, limitMs)
  return {
    lockMs = lockMs, name = name or '',
    limitMax = given(limitMax) and limitMax or nil, limitMs = given(limitMs) and limitMs or nil,
  }
end
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
setFields(jobKey, rest, #ARGV)
if call('LREM', KEYS[10], -1, jobId) == 0 then return -3 end
local score, due = delayedScore(now, tonumber(delay))
if free ~= '1' then call('HSET', jobKey, 'atm', toInteger(call('HGET', jobKey, 'atm')) + 1) end
call('HSET', jobKey, 'delay', delay)
local limit = eventLimit(KEYS[3])
call('ZADD', KEYS[4], score, jobId)
emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
local nextJob = fetch == '1' and fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { token })
if nextJob and nextJob[1][1] then return nextJob end
signalDelayed(KEYS[5], KEYS[4])
return 0
