--[[ A job that moves to another queue and waits there, as if it had been added there. The command has the queues 1, from
     which it moves, and 2.

     checkTransfer raises an error if the queues are the same, or if the user may not rename their keys. It is called before
             anything is changed.
     transferJob moves a job that has left its state: prev. dedup: {ttl, flags, lifo} of its options, as text; later, the
             score of a job that stays delayed; requested, for a job that was not fetched just now. opts: its new
             options, or nil. A job with a number keeps it if no job of the other queue has it, and gets a new one otherwise.
             A job with a custom id, or with a deduplication id, is dropped if an add would be. Its parent no longer waits for it.
             Returns its id, and '', or with another job's id 'exists' or 'deduplicated' if it was dropped.

     Events: added and waiting (or delayed) in the other queue, or duplicated or deduplicated; removed in its own; for a parent that waited
     for a dropped job alone, waiting. ]]
--@keys events meta active id delayed marker
--@use ready marker events held deduplication relocate delete finish safeRead text discard
local function checkTransfer()
  local to = useQueue(2)
  local from = useQueue(1)
  if from == to then error('a job can not move to the queue in which it is', 0) end
  checkRename(from, to)
end

-- The records of children that have not finished refer to the parent.
local function followParent(jobKey, queueKey, jobId)
  local pending = unlessWrongType(try('SMEMBERS', jobKey .. ':dependencies')) or {}
  for i = 1, #pending do
    local read, parent = pcall(cjson.decode, unlessWrongType(try('HGET', pending[i], 'parent')) or '')
    if read and type(parent) == 'table' then
      parent.id, parent.queueKey = jobId, queueKey
      call('HSET', pending[i], 'parentKey', jobKey, 'parent', (string.gsub(cjson.encode(parent), '\\/', '/')))
    end
  end
end

-- What belongs to the fetch that has not run the job, and to the queue that it leaves.
local function forgetFetch(jobKey)
  local starts = toInteger(call('HGET', jobKey, 'ats'))
  call('HDEL', jobKey, 'processedOn', 'pb', 'rjk')
  if starts > 1 then call('HSET', jobKey, 'ats', starts - 1) else call('HDEL', jobKey, 'ats') end
end

-- Returns the id of the job in the queue in use, the limit of its events stream, and whether the queue is held; or nil and the
-- result of a job that is dropped.
local function admitMoved(to, jobId, now, job, mode)
  local newId, digits = jobId, string.match(jobId, '^[1-9]%d*$')
  local number = digits and tonumber(digits)
  local counter = call('INCR', idKey)
  local limit, held = eventLimitAndHeld(metaKey, activeKey)
  if call('EXISTS', to .. jobId) == 0 then
    -- The next job that is added must not get this number.
    if number and counter < number then call('SET', idKey, jobId) end
  elseif number or job.parentKey then
    newId = counter .. ''
  else
    emitTrimmed(limit, 'duplicated', 'jobId', jobId)
    return nil, jobId, 'exists'
  end
  local owner = mode and deduplicate(to, mode, newId, job, now, limit, true)
  if owner then return nil, owner, 'deduplicated' end
  return newId, limit, held
end

local function transferJob(jobId, prev, now, dedup, opts)
  local from = useQueue(1)
  local fromKey = from .. jobId
  local set = unlessWrongType(try('HMGET', fromKey, 'name', 'data', 'opts', 'priority', 'parentKey', 'parent', 'deid')) or {}
  if set[7] then releaseDeduplication(from, set[7], jobId, now) end
  local to = useQueue(2)
  local job = {
    name = set[1] or '', data = set[2] or '{}', opts = opts or set[3] or '{}', delay = '0',
    parentKey = set[5] and call('EXISTS', set[5]) == 1 and set[5] or nil, parent = set[6],
  }
  local mode = deduplicationOf(to, set[7] or '', dedup.ttl, dedup.flags)
  local newId, limit, held = admitMoved(to, jobId, now, job, mode)
  local outcome = ''
  if newId then
    local newKey = to .. newId
    call('RENAME', fromKey, newKey)
    relocateParts(fromKey, newKey)
    if opts then call('HSET', newKey, 'opts', opts) end
    if prev == 'delayed' and not dedup.later then call('HSET', newKey, 'delay', '0') end
    if not dedup.requested then forgetFetch(newKey) end
    if job.parentKey and call('SREM', job.parentKey .. ':dependencies', fromKey) == 1 then
      call('SADD', job.parentKey .. ':dependencies', newKey)
    end
    followParent(newKey, string.sub(to, 1, -2), newId)
    emit(eventsKey, 'added', 'jobId', newId, 'name', job.name)
    if dedup.later then
      call('ZADD', delayedKey, dedup.later, newId)
      emitTrimmed(limit, 'delayed', 'jobId', newId, 'delay', math.floor(toNumber(dedup.later) / 4096))
      signalDelayed(markerKey, delayedKey)
    else
      makeReady(to, newId, math.max(toNumber(set[4]), 0), given(dedup.lifo) and 'RPUSH' or 'LPUSH', held)
      emitTrimmed(limit, 'waiting', 'jobId', newId)
    end
  else
    detachFromParent(fromKey, false)
    deleteJob(fromKey)
    newId, outcome = limit, held
  end
  useQueue(1)
  emitTrimmed(eventLimit(metaKey), 'removed', 'jobId', jobId, 'prev', prev)
  return newId, outcome
end
