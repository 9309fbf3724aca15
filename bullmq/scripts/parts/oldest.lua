--[[ oldestOf finds the oldest job of a state, without reading all jobs. base is the base of the queue, and state is wait,
     paused, active, prioritized or delayed. It returns a list of {timestamp, processedOn, opts}, of which the oldest one
     counts; for delayed {due time in ms of the first job}.

     The oldest job of a list is at one of its ends, because a new job is added at the left or, with lifo, at the right. Of
     the prioritized jobs, the first job of each priority is read, for at most 100 priorities. At most 9 ids without a hash
     are skipped. ]]
--@use safeRead
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
