--[[ The registry of queues: the sorted sets queues (name, time of the last registration), listeners (id, end of the lease), and
     for each listener wake:<id>, whose member all or new wakes it. The caller gives the prefix of these keys.

     registryTime returns the time of the server in ms, or that of the caller if the user may not call TIME.
     wakeListeners wakes all listeners.
     registerAll adds queues or renews their entries, and wakes the listeners if some are new. It returns the number of new ones. ]]
--@use clock
local function registryTime(now)
  local us = serverTime()
  if us == 0 then return tonumber(now) end
  return math.floor(us / 1000)
end

local function wakeListeners(base, now, member)
  call('ZREMRANGEBYSCORE', base .. 'listeners', '-inf', '(' .. now)
  local listeners = call('ZRANGE', base .. 'listeners', 0, -1)
  for i = 1, #listeners do
    local wake = base .. 'wake:' .. listeners[i]
    call('ZADD', wake, 0, member)
    call('PEXPIRE', wake, 60000)
  end
end

local function registerAll(base, now, names)
  local fresh = 0
  for i = 1, #names do fresh = fresh + call('ZADD', base .. 'queues', now, names[i]) end
  if fresh > 0 then wakeListeners(base, now, 'new') end
  return fresh
end
