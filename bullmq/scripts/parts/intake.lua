--[[ What every add does before a job is stored.

     intake: {base, id ('' for the next number), now, job, mode?, defer, mayReplace}.
             Returns jobId, jobKey, the cap of the events stream and whether the queue is held; or nil and the reply of
             the command:
             {id, 'exists'}        a job with this id exists already
             {id, 'deduplicated'}  that job owns the deduplication id
             -5 the parent does not exist, -7 the existing job has another parent, which still exists.
     defer:  the call is one of a flow's: a parent isn't let go before the whole tree is there.
     adopt:  the child is counted among its parent's pending ones. ]]
--@keys id meta events completed active
--@use text gate events parent dedup
local function readopt(jobKey, jobId, job, now, defer)
  local parentKey = job.parentKey
  if not parentKey then return end
  if call('ZSCORE', completedKey, jobId) then
    local value = call('HGET', jobKey, 'returnvalue')
    if defer then
      call('HSET', parentKey .. ':processed', jobKey, value)
    else
      local parent = cjson.decode(job.parent)
      childDone(parent.queueKey .. ':', parentKey, parent.id, jobKey, value, now)
    end
  else
    call('SADD', parentKey .. ':dependencies', jobKey)
  end
  call('HSET', jobKey, 'parentKey', parentKey, 'parent', job.parent)
end

local function duplicate(jobKey, jobId, job, now, defer, limit)
  local known = call('HGET', jobKey, 'parentKey')
  local free = not known or known == job.parentKey
  local there = not free and call('EXISTS', known) == 1
  if not there then free = true end --@v6
  if free then
    readopt(jobKey, jobId, job, now, defer)
  elseif job.parentKey and there then
    if defer then call('HSET', job.parentKey, 'flowAttachmentFailed', '1') end
    return -7
  end
  sayTrimmed(limit, 'duplicated', 'jobId', jobId)
  return { jobId, 'exists' }
end

local function intake(base, id, now, job, mode, defer, mayReplace)
  if job.parentKey and call('EXISTS', job.parentKey) == 0 then return nil, -5 end
  local number = call('INCR', idKey)
  local limit, isHeld = capAndHeld(metaKey, activeKey)
  local jobId = id
  if id == '' then jobId = number .. '' end
  local jobKey = base .. jobId
  if id ~= '' and call('EXISTS', jobKey) == 1 then
    return nil, duplicate(jobKey, jobId, job, now, defer, limit)
  end
  local owner = mode and ownerOf(base, mode, jobId, job, now, limit, mayReplace)
  if owner then return nil, { owner, 'deduplicated' } end
  return jobId, jobKey, limit, isHeld
end

local function adopt(jobKey, job)
  if job.parentKey then call('SADD', job.parentKey .. ':dependencies', jobKey) end
end

-- The arguments that all adds share, in ARGV order, as a job and its deduplication mode.
local function jobOf(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
  local function orNil(argument)
    if given(argument) then return argument end
  end
  return {
    name = name, data = data, opts = opts, timestamp = timestamp, delay = delay, priority = priority,
    lifo = lifo == '1', parentKey = orNil(parentKey), parent = orNil(parent), scheduler = orNil(scheduler),
    dedupId = orNil(dedupId),
  }
end
