--[[ Ready jobs are in the list wait or, with a priority, in the sorted set prioritized.

     priorityScore returns the score of a prioritized job: its priority, then the order of arrival (counter pc).
     makeReady adds a job there and signals a worker. push is LPUSH (fetched last) or RPUSH (fetched next).
     Its argument is the prefix of a queue, since a parent may be in another one. ]]
--@keys wait prioritized pc marker
--@keys meta paused --@v5
--@use held marker
local function priorityScore(pcAt, priority)
  return priority * 4294967296 + call('INCR', pcAt) % 4294967296
end

local function makeReady(queue, jobId, priority, push, held)
  if priority == 0 then
    call(push, waitList(queue), jobId)
  else
    call('ZADD', queue .. 'prioritized', priorityScore(queue .. 'pc', priority), jobId)
  end
  signalReady(queue .. 'marker', held)
end
