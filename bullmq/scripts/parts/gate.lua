--[[ held: may no job start now? True when the queue is paused (meta.paused) or runs as many jobs
     as its global concurrency allows (meta.concurrency). Takes keys, for a parent may live in another queue.
     lineAt: the list in which jobs without priority wait for a worker: wait; in BullMQ 5 the list paused while the
     queue is paused.
     capAndHeld: that, and the events stream's cap (opts.maxLenEvents, written as 10000 when missing), in one read. ]]
local function held(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  if set[1] then return true end
  return set[2] and call('LLEN', activeAt) >= tonumber(set[2])
end

local function lineAt(queue)
  if call('HEXISTS', queue .. 'meta', 'paused') == 1 then return queue .. 'paused' end --@v5
  return queue .. 'wait'
end

local function capAndHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  if not set[1] then
    set[1] = 10000
    call('HSET', metaAt, 'opts.maxLenEvents', set[1])
  end
  return set[1], set[2] or (set[3] and call('LLEN', activeAt) >= tonumber(set[3]))
end
