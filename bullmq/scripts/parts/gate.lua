--[[ held: may no job start now? True when the queue is paused (meta.paused) or runs as many jobs
     as its global concurrency allows (meta.concurrency). Takes keys, for a parent may live in another queue.
     lineAt: the list in which jobs without priority wait for a worker: wait; in BullMQ 5 the list paused while the
     queue is paused.
     capAndHeld: that, and the events stream's cap (as cap), in one read.
     isFull: do as many jobs run as a concurrency allows? One that is no number allows any. ]]
--@use events
local function isFull(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end

local function held(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isFull(set[2], activeAt)
end

local function lineAt(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end --@v5
  return queue .. 'wait'
end

local function capAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  return capOf(metaAt, set[1]), set[2] or isFull(set[3], activeAt)
end
