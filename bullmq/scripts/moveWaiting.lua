--[[ moveWaiting: moves jobs that are waiting, prioritized, or delayed and due, to another queue, where they wait as if they had
     been added there. At the request of a user it also moves delayed jobs, which stay delayed, and failed ones. Then it moves
     no job that belongs to a flow or a scheduler, or that an add would drop.

     Arguments: (queues: that of the jobs, and the other one) now (ms), requested ('1' or ''), then for each job its id, its new options (JSON), ttl
     (ms) and flags of its deduplication as for an add, lifo ('1' or '').
     Returns: for each job its id in the other queue; '' if it is in none of these states, and was not moved. If requested, {0} for
     a job in none of these states, and {n} for another one that was not moved: 1 no such job, 2 it belongs to a flow, 3 to a
     scheduler, 4 the other queue has a job with its id or its deduplication id.
     Errors: the queues are the same; the user may not rename keys. Nothing has changed then.
     Events: for each job those of forwardJob, without drained. ]]
--@queues events meta wait
--@args now requested ...
--@keys prioritized paused delayed failed
--@use transfer safeRead
local function isDue(score)
  return score and toNumber(score) < (tonumber(now) + 1) * 4096
end

-- The reason why a job may not be moved at the request of a user.
local function obstacle(jobId)
  local jobKey = useQueue(1) .. jobId
  if call('EXISTS', jobKey) == 0 then return 1 end
  local job = unlessWrongType(try('HMGET', jobKey, 'parentKey', 'rjk', 'deid'))
  if not job then return 1 end
  if job[1] or call('EXISTS', jobKey .. ':dependencies', jobKey .. ':processed', jobKey .. ':failed', jobKey .. ':unsuccessful') > 0 then
    return 2
  end
  if job[2] then return 3 end
  local to = useQueue(2)
  local number = string.match(jobId, '^[1-9]%d*$')
  local taken = not number and call('EXISTS', to .. jobId) == 1 or job[3] and call('EXISTS', to .. 'de:' .. job[3]) == 1
  useQueue(1)
  return taken and 4
end

local function takeOut(jobId)
  local score = call('ZSCORE', delayedKey, jobId)
  if score then
    call('ZREM', delayedKey, jobId)
    return 'delayed', not isDue(score) and score or nil
  end
  if call('ZREM', failedKey, jobId) == 1 then
    call('HDEL', useQueue(1) .. jobId, 'finishedOn', 'processedOn', 'failedReason')
    return 'failed'
  end
end

checkTransfer()
local moved = {}
for i = rest, #ARGV - 4, 5 do
  local jobId = ARGV[i]
  local base = useQueue(1)
  local prev, later
  local refused = given(requested) and obstacle(jobId)
  if refused then
    prev = nil
  elseif call('LREM', waitKey, -1, jobId) == 1 then
    prev = 'wait'
  elseif call('LREM', pausedKey, -1, jobId) == 1 then
    prev = 'paused'
  elseif call('ZREM', prioritizedKey, jobId) == 1 then
    prev = 'prioritized'
  elseif given(requested) then
    prev, later = takeOut(jobId)
  elseif isDue(call('ZSCORE', delayedKey, jobId)) and call('ZREM', delayedKey, jobId) == 1 then
    prev = 'delayed'
  end
  moved[#moved + 1] = given(requested) and { refused or 0 } or ''
  if prev and call('EXISTS', base .. jobId) == 1 then
    local dedup = { ttl = ARGV[i + 2], flags = ARGV[i + 3], lifo = ARGV[i + 4], later = later, requested = given(requested) }
    moved[#moved] = transferJob(jobId, prev, now, dedup, ARGV[i + 1])
  end
end
return moved
