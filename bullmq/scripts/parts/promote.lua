--[[ promoteDelayed makes ready the delayed jobs that are due, in order, at most 1000.

     Events: waiting for each. ]]
--@keys delayed marker wait prioritized events pc
--@use events marker ready held safeRead
local function promoteJobs(base, ids, held)
  call('ZREM', delayedKey, unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', waitList(base), id)
    else
      call('ZADD', prioritizedKey, priorityScore(pcKey, priority), id)
    end
    emit(eventsKey, 'waiting', 'jobId', id, 'prev', 'delayed')
    unlessWrongType(try('HSET', base .. id, 'delay', 0)) -- the next fetch drops a key that is not a hash
  end
  signalReady(markerKey, held)
end

local function promoteDelayed(base, now, held)
  local due = call('ZRANGEBYSCORE', delayedKey, '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promoteJobs(base, due, held) end
end
