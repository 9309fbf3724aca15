--[[ Ways into the ready state: the list wait for jobs without priority, the zset prioritized for the rest.
     rank:  score of a prioritized job: priority, then the order of arrival (counter pc).
     ready: puts a job there and wakes a worker. push is LPUSH (last in line) or RPUSH (next to run).
     Takes a queue's prefix, for a parent may live in another queue. ]]
--@keys wait prioritized pc marker
--@keys meta paused --@v5
--@use gate marker
local function rank(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end

local function ready(queue, jobId, priority, push, isHeld)
  if priority == 0 then
    call(push, lineAt(queue), jobId)
  else
    call('ZADD', queue .. 'prioritized', rank(queue .. 'pc', priority), jobId)
  end
  wake(queue .. 'marker', isHeld)
end
