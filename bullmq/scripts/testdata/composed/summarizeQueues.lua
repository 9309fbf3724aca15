-- Composed from summarizeQueues.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local queues = KEYS
local minutes = ARGV[1]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function readTimes(base, jobId, found)
  local fields = unlessWrongType(try('HMGET', base .. jobId, 'timestamp', 'processedOn', 'opts'))
  if not fields or not fields[1] then return false end
  found[#found + 1] = { fields[1], fields[2] or '', fields[3] or '' }
  return true
end
local function readFirstTimes(base, ids, found)
  for i = 1, #ids do
    if readTimes(base, ids[i], found) then return end
  end
end
local function oldestOfList(base, at)
  local found, last, right = {}, call('LRANGE', at, -10, -1), {}
  for i = #last, 1, -1 do right[#right + 1] = last[i] end
  readFirstTimes(base, right, found)
  readFirstTimes(base, call('LRANGE', at, 0, 9), found)
  return found
end
local function oldestOfEachPriority(base, at)
  local found, from = {}, '-inf'
  for _ = 1, 100 do
    local first = call('ZRANGEBYSCORE', at, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '10')
    if #first == 0 then break end
    local priority = math.floor(tonumber(first[2]) / 4294967296)
    for i = 1, #first, 2 do
      if math.floor(tonumber(first[i + 1]) / 4294967296) ~= priority or readTimes(base, first[i], found) then break end
    end
    from = string.format('%.0f', (priority + 1) * 4294967296)
  end
  return found
end
local function oldestOf(base, state)
  local at = base .. state
  if state == 'delayed' then
    local first = call('ZRANGE', at, 0, 0, 'WITHSCORES')
    return first[2] and { math.floor(tonumber(first[2]) / 4096) } or {}
  elseif state == 'prioritized' then
    return oldestOfEachPriority(base, at)
  end
  return oldestOfList(base, at)
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
local function pausedSchedulers(base)
  return string.sub(base, 1, -2) .. '@x:paused-schedulers'
end
local lists, sets = { 'wait', 'paused', 'active' }, { 'delayed', 'prioritized', 'completed', 'failed', 'waiting-children' }
local aged = { 'wait', 'paused', 'active', 'delayed', 'prioritized' }
local function metrics(at)
  local head = call('HMGET', at, 'count', 'prevTS')
  return { head[1] or '', head[2] or '', head[1] and call('LRANGE', at .. ':data', 0, minutes - 1) or {} }
end
local function summarize(base)
  local counts, oldest = {}, {}
  for i = 1, #lists do counts[i] = call('LLEN', base .. lists[i]) end
  if counts[1] > 0 and string.sub(call('LINDEX', base .. 'wait', -1), 1, 2) == '0:' then counts[1] = counts[1] - 1 end
  for i = 1, #sets do counts[#lists + i] = call('ZCARD', base .. sets[i]) end
  for i = 1, #aged do oldest[i] = counts[i] > 0 and oldestOf(base, aged[i]) or {} end
  local meta = call('HMGET', base .. 'meta', 'paused', 'concurrency', 'max', 'duration', 'version')
  for i = 1, 5 do meta[i] = meta[i] or '' end
  local held = try('HLEN', pausedSchedulers(base))
  return {
    counts, oldest, meta, call('PTTL', base .. 'limiter'), call('GET', base .. 'id') or '',
    metrics(base .. 'metrics:completed'), metrics(base .. 'metrics:failed'), call('ZCARD', base .. 'repeat'),
    type(held) == 'number' and held or 0,
  }
end
local all = {}
for n = 1, #queues - 1 do
  local _, summary = orText(pcall(summarize, queues[n]))
  all[n] = summary
end
return all
