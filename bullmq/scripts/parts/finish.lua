--[[ The end of a job that runs.

     finish: job {id, token, outcome 'completed' or 'failed', value, attempts?, keepCount, keepAge, keepLimit (nil or ''
             where not set), from, to: where in ARGV there are fields to set}, points: '' or how many minutes of metrics are kept.
             What it does to others, the parent, jobs that are not kept, may meet what nobody can work with: the job's own
             end is written all the same, and the command then fails with that error.
             0 done, or -1 no job, -2 no lock, -3 not active, -4 children pending, -6 another's lock, -9 a child failed.
     sayDrained: says drained when no job waits or runs. ]]
--@keys wait active prioritized events stalled meta completed failed metrics:completed metrics:failed
--@use text events lock fields dedup parent remove retention drop metrics sound
local function endDedup(base, dedupId, jobId, now)
  local key = base .. 'de:' .. dedupId
  local left = call('PTTL', key)
  if left == 0 or (left == -1 and call('GET', key) == jobId) then call('DEL', key) end
  requeue(base, dedupId, now)
end

local function tellParent(jobKey, parentKey, parent, outcome, value, now)
  if outcome == 'failed' then
    if parent then childFailed(parent, jobKey, value, now) end
    return
  end
  local queue, parentId
  if parent then
    queue, parentId = parent.queueKey .. ':', parent.id
  else
    queue, parentId = splitKey(parentKey)
  end
  if parentId and call('SREM', parentKey .. ':dependencies', jobKey) == 1 then
    childDone(queue, parentKey, parentId, jobKey, value, now)
  end
end

local function whereTo(outcome)
  if outcome == 'completed' then return completedKey, metricsCompletedKey, 'returnvalue' end
  return failedKey, metricsFailedKey, 'failedReason'
end

local function finish(base, now, job, points)
  local jobKey = base .. job.id
  local setAt, statsAt, field = whereTo(job.outcome)
  if call('EXISTS', jobKey) == 0 then return -1 end
  if job.outcome == 'completed' then
    if (orNothing(try('SCARD', jobKey .. ':dependencies')) or 0) > 0 then return -4 end
    if (orNothing(try('ZCARD', jobKey .. ':unsuccessful')) or 0) > 0 then return -9 end
  end
  local refused = unlock(jobKey, job.id, job.token)
  if refused < 0 then return refused end
  setFields(jobKey, job.from, job.to)
  local link = call('HMGET', jobKey, 'parentKey', 'parent', 'deid', 'atm')
  if call('LREM', activeKey, '-1', job.id) == 0 then return -3 end

  trim()
  local trouble
  local function beside(step, ...)
    local fine, why = pcall(step, ...)
    if not fine then trouble = why end
  end
  if link[3] then beside(endDedup, base, link[3], job.id, now) end
  if link[1] or link[2] then
    beside(tellParent, jobKey, link[1] or '', parentOf(link[2]), job.outcome, job.value, now)
  end
  local made = wholeOf(link[4]) + 1
  call('HSET', jobKey, 'atm', made)

  local count = tonumber(job.keepCount)
  if count == 0 then
    dropJob(jobKey)
    if link[1] and link[1] ~= '' then beside(unlink, jobKey, link[1], false, nil, link[3]) end
  else
    call('ZADD', setAt, now, job.id)
    call('HSET', jobKey, field, job.value, 'finishedOn', now)
    if job.outcome == 'failed' then call('HDEL', jobKey, 'defa') end
    if given(job.keepAge) then
      beside(dropOlder, base, setAt, now, tonumber(job.keepAge), tonumber(job.keepLimit) or 1000)
    end
    if count and count > 0 then beside(dropBeyond, base, setAt, count) end
  end

  say(eventsKey, job.outcome, 'jobId', job.id, field, job.value, 'prev', 'active')
  if job.outcome == 'failed' and made >= (tonumber(job.attempts) or 0) then
    say(eventsKey, 'retries-exhausted', 'jobId', job.id, 'attemptsMade', made)
  end
  if given(points) then beside(measure, statsAt, points, now, 1) end
  if trouble then error(trouble, 0) end
  return 0
end

local function sayDrained()
  if call('LLEN', waitKey) == 0 and call('LLEN', activeKey) == 0 and call('ZCARD', prioritizedKey) == 0 then
    say(eventsKey, 'drained')
  end
end
