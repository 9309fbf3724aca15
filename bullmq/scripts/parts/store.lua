--[[ A new job.
     store:   writes its hash and says added. job: {name, data, opts, timestamp, delay, priority, lifo,
              parentKey?, parent? (JSON), scheduler?, dedupId?}
     enqueue: puts a stored job where its delay, its priority or its place in line say, and says so. ]]
--@keys events active meta
--@use gate events ready delay
local function store(jobKey, jobId, job)
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
  say(eventsKey, 'added', 'jobId', jobId, 'name', job.name)
end

local function enqueue(base, jobId, job, now, limit)
  local delay = tonumber(job.delay)
  if delay ~= 0 then
    delayJob(jobId, now, delay, limit)
    return
  end
  ready(base, jobId, math.max(tonumber(job.priority), 0), job.lifo and 'RPUSH' or 'LPUSH', held(metaKey, activeKey))
  sayTrimmed(limit, 'waiting', 'jobId', jobId)
end
