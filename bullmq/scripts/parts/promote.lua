--[[ promoteDue: moves delayed jobs whose time has come (at most 1000) to the ready state, in order. ]]
--@keys delayed marker wait prioritized events pc
--@use events marker ready gate
local function promoteDue(base, now, isHeld)
  local due = call('ZRANGEBYSCORE', delayedKey, 0, (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)
  if #due == 0 then return end
  call('ZREM', delayedKey, unpack(due))
  for i = 1, #due do
    local id = due[i]
    local priority = tonumber(call('HGET', base .. id, 'priority')) or 0
    if priority == 0 then
      call('LPUSH', lineAt(base), id)
    else
      call('ZADD', prioritizedKey, rank(pcKey, priority), id)
    end
    say(eventsKey, 'waiting', 'jobId', id, 'prev', 'delayed')
    call('HSET', base .. id, 'delay', 0)
  end
  wake(markerKey, isHeld)
end
