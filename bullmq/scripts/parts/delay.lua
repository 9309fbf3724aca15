--[[ Delayed jobs. The score is the due time in ms times 4096, and the low 12 bits keep the order of
     arrival among jobs due in the same ms (the last of 4096 slots is shared).
     slot:   score and due time for a job delayed from now.
     delayJob: puts a job there, says so, and sets the marker for the first job due. ]]
--@keys delayed marker
--@use events marker
local function slot(now, delay)
  local due = tonumber(now)
  if delay > 0 then due = due + delay end
  local lowest, highest = due * 4096, (due + 1) * 4096 - 1
  local taken = call('ZREVRANGEBYSCORE', delayedKey, highest, lowest, 'WITHSCORES', 'LIMIT', '0', '1')
  local last = taken[2] and tonumber(taken[2])
  if not last then return lowest, due end
  if last >= highest then return highest, due end
  return last + 1, due
end

local function delayJob(jobId, now, delay, limit)
  local score, due = slot(now, delay)
  call('ZADD', delayedKey, score, jobId)
  sayTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  wakeAt(markerKey, delayedKey)
end
