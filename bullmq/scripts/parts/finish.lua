--[[ Finishing one active job.

     finishJob takes job: {id, token, outcome 'completed' or 'failed', value, attempts?, keepCount, keepAge, keepLimit
             (nil or '' if not set), from, to: the range of ARGV with fields to set}, and points: for how many minutes
             metrics are kept, or ''.
             Changes of other keys (the parent, a deduplication id, jobs beyond the retention) may fail because of values that
             can't be processed. The outcome of the job itself is written nevertheless, and then finishJob raises the error.
             Returns 0, or -1 no such job, -2 no lock, -3 not active, -4 pending children, -6 the lock has another token,
             -9 a child failed.
     emitDrained emits drained if no job is waiting, prioritized or active.

     Events: completed or failed; retries-exhausted if no attempt is left; those of the parent and of deduplication. ]]
--@keys wait active prioritized events stalled meta completed failed metrics:completed metrics:failed
--@use text events lock fields deduplication parent discard retention delete metrics safeRead
local function releaseDeduplication(base, dedupId, jobId, now)
  local key = base .. 'de:' .. dedupId
  local left = call('PTTL', key)
  if left == 0 or (left == -1 and call('GET', key) == jobId) then call('DEL', key) end
  addKeptJob(base, dedupId, now)
end

local function notifyParent(jobKey, parentKey, parent, outcome, value, now)
  if outcome == 'failed' then
    if parent then failChild(parent, jobKey, value, now) end
    return
  end
  local queue, parentId
  if parent then
    queue, parentId = parent.queueKey .. ':', parent.id
  else
    queue, parentId = splitKey(parentKey)
  end
  if parentId and call('SREM', parentKey .. ':dependencies', jobKey) == 1 then
    completeChild(queue, parentKey, parentId, jobKey, value, now)
  end
end

local function finishedState(outcome)
  if outcome == 'completed' then return completedKey, metricsCompletedKey, 'returnvalue' end
  return failedKey, metricsFailedKey, 'failedReason'
end

local function finishJob(base, now, job, points)
  local jobKey = base .. job.id
  local setAt, statsAt, field = finishedState(job.outcome)
  if call('EXISTS', jobKey) == 0 then return -1 end
  if job.outcome == 'completed' then
    if (unlessWrongType(try('SCARD', jobKey .. ':dependencies')) or 0) > 0 then return -4 end
    if (unlessWrongType(try('ZCARD', jobKey .. ':unsuccessful')) or 0) > 0 then return -9 end
  end
  local refused = releaseLock(jobKey, job.id, job.token)
  if refused < 0 then return refused end
  setFields(jobKey, job.from, job.to)
  local link = call('HMGET', jobKey, 'parentKey', 'parent', 'deid', 'atm', 'defa')
  if call('LREM', activeKey, '-1', job.id) == 0 then return -3 end

  trimEvents()
  local trouble
  local function tolerate(step, ...)
    local fine, why = pcall(step, ...)
    if not fine then trouble = why end
  end
  if link[3] then tolerate(releaseDeduplication, base, link[3], job.id, now) end
  if link[1] or link[2] then
    tolerate(notifyParent, jobKey, link[1] or '', toParent(link[2]), job.outcome, job.value, now)
  end
  local made = toInteger(link[4]) + 1
  call('HSET', jobKey, 'atm', made)

  local count = tonumber(job.keepCount)
  if count == 0 then
    deleteJob(jobKey)
    if link[1] and link[1] ~= '' then tolerate(detachChild, jobKey, link[1], false, nil, link[3]) end
  else
    call('ZADD', setAt, now, job.id)
    call('HSET', jobKey, field, job.value, 'finishedOn', now)
    -- A job that was cancelled while it ran can still complete.
    if link[5] or job.outcome == 'failed' then call('HDEL', jobKey, 'defa') end
    if given(job.keepAge) then
      tolerate(evictOlder, base, setAt, now, tonumber(job.keepAge), tonumber(job.keepLimit) or 1000)
    end
    if count and count > 0 then tolerate(evictBeyond, base, setAt, count) end
  end

  emit(eventsKey, job.outcome, 'jobId', job.id, field, job.value, 'prev', 'active')
  if job.outcome == 'failed' and made >= (tonumber(job.attempts) or 0) then
    emit(eventsKey, 'retries-exhausted', 'jobId', job.id, 'attemptsMade', made)
  end
  if given(points) then tolerate(collectMetrics, statsAt, points, now, 1) end
  if trouble then error(trouble, 0) end
  return 0
end

local function emitDrained()
  if call('LLEN', waitKey) == 0 and call('LLEN', activeKey) == 0 and call('ZCARD', prioritizedKey) == 0 then
    emit(eventsKey, 'drained')
  end
end
