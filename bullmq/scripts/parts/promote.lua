--[[ promoteDue: moves delayed jobs whose time has come (at most 1000) to the ready state, in order. ]]
--@keys delayed marker wait prioritized events pc
--@use events marker ready gate sound
local function promote(base, ids, isHeld)
  call('ZREM', delayedKey, unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    local priority = priorityOf(base .. id)
    if priority == 0 then
      call('LPUSH', lineAt(base), id)
    else
      call('ZADD', prioritizedKey, rank(pcKey, priority), id)
    end
    say(eventsKey, 'waiting', 'jobId', id, 'prev', 'delayed')
    orNothing(try('HSET', base .. id, 'delay', 0)) -- what is no hash goes when it is taken
  end
  wake(markerKey, isHeld)
end

local function promoteDue(base, now, isHeld)
  local due = call('ZRANGEBYSCORE', delayedKey, '-inf', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if due[1] then promote(base, due, isHeld) end
end
