--[[ moveWaiting: moves jobs that are waiting, prioritized, or delayed and due, to another queue, where they wait as if they had
     been added there.

     Arguments: (queues: that of the jobs, and the other one) now (ms), then for each job its id, its new options (JSON), ttl
     (ms) and flags of its deduplication as for an add, lifo ('1' or '').
     Returns: for each job its id in the other queue; '' if it is in none of these states, and was not moved.
     Errors: the queues are the same; the user may not rename keys. Nothing has changed then.
     Events: for each job those of forwardJob, without drained. ]]
--@queues events meta wait
--@args now ...
--@keys prioritized paused delayed
--@use transfer safeRead
local function isDue(jobId)
  local score = call('ZSCORE', delayedKey, jobId)
  return score and toNumber(score) < (tonumber(now) + 1) * 4096
end

checkTransfer()
local moved = {}
for i = rest, #ARGV - 4, 5 do
  local jobId = ARGV[i]
  local base = useQueue(1)
  local prev
  if call('LREM', waitKey, -1, jobId) == 1 then
    prev = 'wait'
  elseif call('LREM', pausedKey, -1, jobId) == 1 then
    prev = 'paused'
  elseif call('ZREM', prioritizedKey, jobId) == 1 then
    prev = 'prioritized'
  elseif isDue(jobId) and call('ZREM', delayedKey, jobId) == 1 then
    prev = 'delayed'
  end
  moved[#moved + 1] = ''
  if prev and call('EXISTS', base .. jobId) == 1 then
    moved[#moved] = transferJob(jobId, prev, now, { ttl = ARGV[i + 2], flags = ARGV[i + 3], lifo = ARGV[i + 4] }, ARGV[i + 1])
  end
end
return moved
