-- Composed from moveToActive.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] limiter
-- KEYS[4] wait
-- KEYS[5] prioritized
-- KEYS[6] pc
-- KEYS[7] marker
-- KEYS[8] delayed
-- KEYS[9] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local lockMs = ARGV[3]
local name = ARGV[4]
local limitMax = ARGV[5]
local limitMs = ARGV[6]
local rest = 7
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
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
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', KEYS[3])) then return 0 end
  local left = call('PTTL', KEYS[3])
  if left == 0 then call('DEL', KEYS[3]) end
  return left > 0 and left or 0
end
local function priorityScore(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end
local function promoteJobs(base, ids, held)
  call('ZREM', KEYS[8], unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', waitList(base), id)
    else
      call('ZADD', KEYS[5], priorityScore(KEYS[6], priority), id)
    end
    emit(KEYS[1], 'waiting', 'jobId', id, 'prev', 'delayed')
    unlessWrongType(try('HSET', base .. id, 'delay', 0)) -- the next fetch drops a key that is not a hash
  end
  signalReady(KEYS[7], held)
end
local function promoteDelayed(base, now, held)
  local due = call('ZRANGEBYSCORE', KEYS[8], '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
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
    call('LREM', KEYS[9], 1, jobId)
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
    if field == 'defa' then counts = false end
  end
  return at + 2 + #hash, length, starts, counts
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
    local lowest = call('ZPOPMIN', KEYS[5], most - #ids)
    for i = 1, #lowest, 2 do ids[#ids + 1] = lowest[i] end
    if #ids < most then call('DEL', KEYS[6]) end
  end
  if ids[1] then call('LPUSH', KEYS[9], unpack(ids)) end
  return ids
end
local function fetchJobs(base, now, worker, tokens, tidy)
  local set = call('HMGET', KEYS[2], 'paused', 'concurrency', 'max', 'duration')
  local most = #tokens
  local allowed = tonumber(set[2])
  if allowed then most = math.min(most, math.ceil(allowed) - call('LLEN', KEYS[9])) end
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
        if counts and call('INCR', KEYS[3]) == 1 then
          call('PEXPIRE', KEYS[3], math.abs(toInteger(perMs)))
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
  local due = nextDue(KEYS[8])
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
local function serverTime()
  local t = try('TIME')
  if t.err then return 0 end
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function withServerTime(taken)
  taken = taken or { {}, 0, 0 }
  if not taken[1][1] then taken[4] = serverTime() end
  return taken
end
return withServerTime(fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { unpack(ARGV, rest) }))
