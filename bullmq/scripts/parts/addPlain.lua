--[[ addPlain adds plain jobs to a queue: one for each of kinds, with the values in ARGV from an index on (codec.go).
     Returns the number of the first job. The ids of the others follow it.

     Events: for each job added, then waiting or delayed. ]]
--@keys id meta active events wait marker prioritized pc delayed
--@use codec held events marker ready delay
local function addPlain(base, kinds, at)
  local count = #kinds
  local before = call('INCRBY', idKey, count) - count
  local limit, held = eventLimitAndHeld(metaKey, activeKey)
  local last, lasts, first, awake, later = {}, 0, {}, false, false
  local args, stream, kindOf = ARGV, eventsKey, { string.byte(kinds, 1, count) }
  local ids = idTexts(before, kindOf)
  local name, opts, timestamp
  for i = 1, count do
    local jobId, kind = ids[i], kindOf[i] - 48
    local data, delay, priority = args[at], '0', '0'
    at = at + 1
    if kind < 4 then
      name, opts, timestamp = args[at], args[at + 1], args[at + 2]
      at = at + 3
    else
      kind = kind - 4
    end
    if kind == 2 then
      delay, priority = args[at], args[at + 1]
      at = at + 2
    end
    call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp,
      'delay', delay, 'priority', priority)
    call('XADD', stream, '*', 'event', 'added', 'jobId', jobId, 'name', name)
    local event, due = 'waiting'
    if delay ~= '0' then
      local score
      event, later = 'delayed', true
      score, due = delayedScore(timestamp, tonumber(delay))
      call('ZADD', delayedKey, score, jobId)
    elseif kind == 2 then
      awake = true
      call('ZADD', prioritizedKey, priorityScore(pcKey, tonumber(priority)), jobId)
    else
      awake = true
      if kind == 1 then
        first[#first + 1] = jobId
      else
        lasts = lasts + 1
        last[lasts] = jobId
      end
    end
    -- Only the last event trims the stream. The result is the same as if each event did.
    if due and i == count then
      emitTrimmed(limit, event, 'jobId', jobId, 'delay', due)
    elseif due then
      emit(eventsKey, event, 'jobId', jobId, 'delay', due)
    elseif i == count then
      emitTrimmed(limit, event, 'jobId', jobId)
    else
      call('XADD', stream, '*', 'event', event, 'jobId', jobId)
    end
  end
  if last[1] then call('LPUSH', waitList(base), unpack(last)) end
  if first[1] then call('RPUSH', waitList(base), unpack(first)) end
  if awake then signalReady(markerKey, held) end
  if later then signalDelayed(markerKey, delayedKey) end
  return before + 1
end
