--[[ New jobs.

     storeJob writes the hash of a job: {name, data, opts, timestamp, delay, priority, lifo, parentKey?, parent? (JSON),
             scheduler?, dedupId?}.
     enqueueJob adds a stored job to delayed, prioritized or wait.

     Events: added; then delayed or waiting. ]]
--@keys events active meta
--@use held events ready delay
local function storeJob(jobKey, jobId, job)
  local extra = {}
  if job.parentKey then
    extra = { 'parentKey', job.parentKey, 'parent', job.parent }
  end
  if job.scheduler then
    extra[#extra + 1] = 'rjk'
    extra[#extra + 1] = job.scheduler
  end
  if job.dedupId then
    extra[#extra + 1] = 'deid'
    extra[#extra + 1] = job.dedupId
  end
  call('HSET', jobKey, 'name', job.name, 'data', job.data, 'opts', job.opts, 'timestamp', job.timestamp,
    'delay', job.delay, 'priority', job.priority, unpack(extra))
  emit(eventsKey, 'added', 'jobId', jobId, 'name', job.name)
end

local function enqueueJob(base, jobId, job, now, limit)
  local delay = tonumber(job.delay)
  if delay ~= 0 then
    delayJob(jobId, now, delay, limit)
    return
  end
  makeReady(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', isHeld(metaKey, activeKey))
  emitTrimmed(limit, 'waiting', 'jobId', jobId)
end
