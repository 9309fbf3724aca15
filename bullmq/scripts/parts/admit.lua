--[[ What each command that adds a single job does before the job is stored.

     admit takes id ('' for the next number), job, mode (of deduplicationOf), defer and mayReplace.
             Returns jobId, jobKey, the limit of the events stream, and whether the queue is held; or nil and the reply
             of the command:
             {id, 'exists'}        a job with this id exists already
             {id, 'deduplicated'}  the job with the returned id owns the deduplication id
             -5 the parent does not exist, -7 the existing job has another parent, which still exists.
             defer is set within a flow: its parents are released only after the whole flow was added.
     attachToParent adds a child to the pending children of its parent.
     jobOfArguments returns a job, made of the arguments that all adds have in common, in the order of ARGV.

     Events: duplicated if the id exists; those of deduplicate. ]]
--@keys id meta events completed active
--@use text held events parent deduplication
local function reattach(jobKey, jobId, job, now, defer)
  local parentKey = job.parentKey
  if not parentKey then return end
  if call('ZSCORE', completedKey, jobId) then
    local value = call('HGET', jobKey, 'returnvalue')
    if defer then
      call('HSET', parentKey .. ':processed', jobKey, value)
    else
      local parent = cjson.decode(job.parent)
      completeChild(parent.queueKey .. ':', parentKey, parent.id, jobKey, value, now)
    end
  else
    call('SADD', parentKey .. ':dependencies', jobKey)
  end
  call('HSET', jobKey, 'parentKey', parentKey, 'parent', job.parent)
end

local function admitExisting(jobKey, jobId, job, now, defer, limit)
  local known = call('HGET', jobKey, 'parentKey')
  local free = not known or known == job.parentKey
  local there = not free and call('EXISTS', known) == 1
  if not there then free = true end --@v6
  if free then
    reattach(jobKey, jobId, job, now, defer)
  elseif job.parentKey and there then
    if defer then call('HSET', job.parentKey, 'flowAttachmentFailed', '1') end
    return -7
  end
  emitTrimmed(limit, 'duplicated', 'jobId', jobId)
  return { jobId, 'exists' }
end

local function admit(base, id, now, job, mode, defer, mayReplace)
  if job.parentKey and call('EXISTS', job.parentKey) == 0 then return nil, -5 end
  local number = call('INCR', idKey)
  local limit, held = eventLimitAndHeld(metaKey, activeKey)
  local jobId = id
  if id == '' then jobId = number .. '' end
  local jobKey = base .. jobId
  if id ~= '' and call('EXISTS', jobKey) == 1 then
    return nil, admitExisting(jobKey, jobId, job, now, defer, limit)
  end
  local owner = mode and deduplicate(base, mode, jobId, job, now, limit, mayReplace)
  if owner then return nil, { owner, 'deduplicated' } end
  return jobId, jobKey, limit, held
end

local function attachToParent(jobKey, job)
  if job.parentKey then call('SADD', job.parentKey .. ':dependencies', jobKey) end
end

local function jobOfArguments(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
  local function orNil(argument)
    if given(argument) then return argument end
  end
  return {
    name = name, data = data, opts = opts, timestamp = timestamp, delay = delay, priority = priority,
    lifo = lifo == '1', parentKey = orNil(parentKey), parent = orNil(parent), scheduler = orNil(scheduler),
    dedupId = orNil(dedupId),
  }
end
