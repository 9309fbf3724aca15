--[[ replayDeadLetters: turns dead letters in another queue back into the jobs that they were, in this queue. A restored job
     is ready to run, has the data of the letter, and has made no attempts. What its children have done in the meantime is
     recorded here. Children that finish later record their end at the restored job as usual.

     Arguments: base (of this queue), from (the prefix of the queue with the letters), then for each letter its
     id and that of the job.
     Returns: for each letter 1 if it was replayed, 0 if it is not a letter of that job, 2 if there is no such letter, 3 if a
     worker holds the letter, 4 if the letter waits for children, 5 if a job with the id of the original job exists. Only 1
     means that something has changed.
     Errors: the user may not rename keys. Nothing has changed then.
     Events: removed for each letter, on its own queue; added and waiting for each job. ]]
--@args base from ...
--@keys events meta active
--@use ready held events delete repend safeRead text relocate
local limit, limitFrom, held

-- The fields of the original job that the restored job does not have.
local forgotten = {
  finishedOn = true, processedOn = true, failedReason = true, returnvalue = true, atm = true, ats = true,
  attemptsMade = true, stc = true, defa = true, cancelled = true,
}

local function decoded(text)
  local read, value = pcall(cjson.decode, text or '')
  if read and type(value) == 'table' then return value end
end

local function isLetterOf(jobId, opts, original)
  local letter = opts and opts.deadLetter
  if type(letter) ~= 'table' or letter.id ~= jobId or letter.queue ~= string.sub(base, 1, -2) then return false end
  if not original or #original % 2 == 1 then return false end
  for i = 1, #original do
    if type(original[i]) ~= 'string' then return false end
  end
  return true
end

local function takeOut(letterId)
  local sets = { 'completed', 'failed', 'delayed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', from .. sets[i], letterId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused' } -- the oldest letters are at their ends
  for i = 1, #lists do
    if call('LREM', from .. lists[i], -1, letterId) == 1 then return lists[i] end
  end
  return 'unknown'
end

-- updateChild records that a child has completed, or is pending again, since its parent became a letter.
local function updateChild(jobKey, childKey, forget, ...)
  local queue, id = splitKey(childKey)
  if not queue or call('EXISTS', childKey) == 0 or unlessWrongType(try('ZSCORE', queue .. 'failed', id)) then return end
  call(forget, ...)
  if unlessWrongType(try('ZSCORE', queue .. 'completed', id)) then
    call('HSET', jobKey .. ':processed', childKey, unlessWrongType(try('HGET', childKey, 'returnvalue')) or 'null')
  else
    call('SADD', jobKey .. ':dependencies', childKey)
  end
end

local function updateChildren(jobKey)
  local pendingAt, failedAt, ignoredAt = jobKey .. ':dependencies', jobKey .. ':unsuccessful', jobKey .. ':failed'
  local pending = unlessWrongType(try('SMEMBERS', pendingAt)) or {}
  for i = 1, #pending do updateChild(jobKey, pending[i], 'SREM', pendingAt, pending[i]) end
  local failed = unlessWrongType(try('ZRANGE', failedAt, 0, -1)) or {}
  for i = 1, #failed do updateChild(jobKey, failed[i], 'ZREM', failedAt, failed[i]) end
  local ignored = unlessWrongType(try('HKEYS', ignoredAt)) or {}
  for i = 1, #ignored do updateChild(jobKey, ignored[i], 'HDEL', ignoredAt, ignored[i]) end
end

local function restore(jobKey, name, data, original)
  call('HSET', jobKey, 'name', name, 'data', data)
  for i = 1, #original, 2 do
    if not forgotten[original[i]] then call('HSET', jobKey, original[i], original[i + 1]) end
  end
end

local function replay(letterId, jobId)
  local letterKey, jobKey = from .. letterId, base .. jobId
  if call('EXISTS', letterKey) == 0 then return 2 end
  local letter = unlessWrongType(try('HMGET', letterKey, 'name', 'data', 'opts', 'original')) or {}
  local original = decoded(letter[4])
  if not isLetterOf(jobId, decoded(letter[3]), original) then return 0 end
  if call('EXISTS', letterKey .. ':lock') == 1 or call('LPOS', from .. 'active', letterId) then return 3 end
  if call('ZSCORE', from .. 'waiting-children', letterId) then return 4 end
  if call('EXISTS', jobKey) == 1 then return 5 end
  if not limit then
    limit, held = eventLimitAndHeld(metaKey, activeKey)
    limitFrom = eventLimit(from .. 'meta')
  end
  local prev = takeOut(letterId)
  relocateParts(letterKey, jobKey)
  deleteJob(letterKey)
  call('XADD', from .. 'events', 'MAXLEN', '~', limitFrom, '*', 'event', 'removed', 'jobId', letterId, 'prev', prev)
  restore(jobKey, letter[1] or '', letter[2] or '{}', original)
  updateChildren(jobKey)
  repend(jobKey, 'failed')
  emit(eventsKey, 'added', 'jobId', jobId, 'name', letter[1] or '')
  makeReady(base, jobId, math.max(priorityOf(jobKey), 0), 'LPUSH', held)
  emitTrimmed(limit, 'waiting', 'jobId', jobId)
  return 1
end

checkRename(from, base)
local outcomes = {}
for i = rest, #ARGV - 1, 2 do outcomes[#outcomes + 1] = replay(ARGV[i], ARGV[i + 1]) end
return outcomes
