-- Composed from estimateMemory.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local queues = KEYS
local samples = ARGV[1]
local nested = ARGV[2]
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
samples = tonumber(samples)
local own = {
  'wait', 'paused', 'active', 'delayed', 'prioritized', 'completed', 'failed', 'waiting-children', 'repeat', 'marker', 'stalled',
  'stalled-check', 'limiter', 'id', 'pc', 'meta', 'events', 'metrics:completed', 'metrics:failed', 'metrics:completed:data',
  'metrics:failed:data',
}
local lists, sets = { 'wait', 'paused', 'active' }, { 'delayed', 'prioritized', 'completed', 'failed', 'waiting-children' }
local parts = { ':logs', ':lock', ':dependencies', ':processed', ':failed', ':unsuccessful' }
local permitted = 1
local function memoryOf(key)
  if permitted == 0 then return call('EXISTS', key) == 1 and 0 or nil end
  local bytes = try('MEMORY', 'USAGE', key, 'SAMPLES', nested)
  if type(bytes) == 'table' then
    permitted = 0
    return memoryOf(key)
  end
  return bytes or nil
end
local function sizeOfJob(key)
  local bytes = memoryOf(key)
  if not bytes then return 0, 0 end
  local keys = 1
  if call('EXISTS', key .. parts[1], key .. parts[2], key .. parts[3], key .. parts[4], key .. parts[5], key .. parts[6]) > 0 then
    for i = 1, #parts do
      local more = memoryOf(key .. parts[i])
      if more then keys, bytes = keys + 1, bytes + more end
    end
  end
  return keys, bytes
end
local function sample(base, from, count, idAt)
  local looked, keys, bytes = math.min(samples, count), 0, 0
  for i = 1, looked do
    local id = idAt(math.floor((i - 0.5) * count / looked))
    if id then
      local k, b = sizeOfJob(base .. from .. id)
      keys, bytes = keys + k, bytes + b
    end
  end
  return { count, looked, keys, bytes }
end
local function measure(base)
  local keys, bytes, events = 0, 0, 0
  for i = 1, #own do
    local size = memoryOf(base .. own[i])
    if size then
      keys, bytes = keys + 1, bytes + size
      if own[i] == 'events' then events = size end
    end
  end
  local states = {}
  for i = 1, #lists do
    local list = base .. lists[i]
    states[#states + 1] = sample(base, '', call('LLEN', list), function(at) return call('LINDEX', list, at) end)
  end
  local function inSet(set)
    return function(at) return call('ZRANGE', set, at, at)[1] end
  end
  for i = 1, #sets do
    local set = base .. sets[i]
    states[#states + 1] = sample(base, '', call('ZCARD', set), inSet(set))
  end
  local schedulers = sample(base, 'repeat:', call('ZCARD', base .. 'repeat'), inSet(base .. 'repeat'))
  return { permitted, { keys, bytes, events }, states, schedulers }
end
local all = {}
for n = 1, #queues - 1 do
  local _, measured = orText(pcall(measure, queues[n]))
  all[n] = measured
end
return all
