--[[ Delayed jobs. A score in the set delayed is the due time in ms times 4096. The low 12 bits keep the order of arrival of
     jobs that are due in the same ms. If there are more than 4096 such jobs, the later ones share the last score.

     delayedScore returns the score and the due time (ms) of a job that is delayed from now on.
     delayJob adds a job to the set, and sets the marker for the first job that is due.

     Events: delayed, with the due time. ]]
--@keys delayed marker
--@use events marker
local function delayedScore(now, delay)
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
  local score, due = delayedScore(now, delay)
  call('ZADD', delayedKey, score, jobId)
  emitTrimmed(limit, 'delayed', 'jobId', jobId, 'delay', due)
  signalDelayed(markerKey, delayedKey)
end
