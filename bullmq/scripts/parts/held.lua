--[[ Whether a queue may start jobs.

     isHeld reports whether no job may start now: the queue is paused (meta.paused), or as many jobs are active as its
             global concurrency allows (meta.concurrency). Its arguments are keys, because a parent may be in another queue.
     isMaxed reports whether as many jobs are active as the global concurrency allows. If the concurrency is not a number,
             there is no limit.
     waitList returns the list of waiting jobs without priority: wait, or paused while BullMQ 5 has paused the queue.
     eventLimitAndHeld returns the limit of the events stream and the result of isHeld. It reads meta only once. ]]
--@use events
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end

local function isHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isMaxed(set[2], activeAt)
end

local function waitList(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end --@v5
  return queue .. 'wait'
end

local function eventLimitAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  return eventLimitOf(metaAt, set[1]), set[2] or isMaxed(set[3], activeAt)
end
