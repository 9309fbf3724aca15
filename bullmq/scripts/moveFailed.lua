--[[ moveFailed: moves failed jobs of another queue to this one, the oldest first. Each becomes a dead letter: a waiting job
     with the same name and data, the option deadLetter {queue, id, reason, cancelled, attemptsMade, failedAt}, and the
     field original with all other fields of the job's hash. The parent and the children of the job are not changed.

     Arguments: base (of this queue), from (the prefix of the other queue), since (the lowest score to look at: ms, or -inf),
     count (how many jobs to look at), skip (how many of the oldest jobs from since on to pass over), now (ms), cancelled
     ('1' to move cancelled jobs too), whole ('1' to return the hashes of the letters).
     Returns: the number of jobs looked at; the number of these that stay in failed, because they have no name, were
     cancelled, or have children that can still end; the number that stay because of such children; then for each letter
     its id and, if whole is set, its hash.
     Errors: the user may not rename keys. Nothing has changed then.
     Events: added and waiting for each letter; removed for each job, on its own queue. ]]
--@args base from since count skip now cancelled whole
--@keys meta
--@use store events safeRead text relocate letter cancelled
local queueKey = string.sub(from, 1, -2)
local found = call('ZRANGEBYSCORE', from .. 'failed', since, '+inf', 'WITHSCORES', 'LIMIT', skip, count)
local stay, pending, letters = 0, 0, {}
local limit, limitFrom

local function json(value)
  return (string.gsub(cjson.encode(value), '\\/', '/'))
end

local function integerText(number)
  return string.format('%.0f', toInteger(number))
end

local function freeLetterId(jobId)
  local n = 1
  while call('EXISTS', base .. letterIdOf(queueKey, jobId, n)) == 1 do n = n + 1 end
  return letterIdOf(queueKey, jobId, n)
end

-- The field cancelled may be that of an earlier run, so the reason of the failure must be that of a cancellation too.
local function wasCancelled(job)
  return job.cancelled and isCancelText(job.failedReason or '')
end

local function optsOf(jobId, job, failedAt)
  local text = '{"attempts":0'
  local read, opts = pcall(cjson.decode, job.opts or '')
  if read and type(opts) == 'table' then
    if type(opts.tm) == 'string' then text = text .. ',"tm":' .. json(opts.tm) end
    if opts.omc == true then text = text .. ',"omc":true' end
  end
  return text .. ',"deadLetter":{"queue":' .. json(queueKey) .. ',"id":' .. json(jobId) .. ',"reason":' ..
    json(job.failedReason or '') .. (wasCancelled(job) and ',"cancelled":true' or '') .. ',"attemptsMade":' ..
    integerText(toInteger(job.attemptsMade) + toInteger(job.atm)) .. ',"failedAt":' .. failedAt .. '}}'
end

local function move(jobId, score)
  local jobKey = from .. jobId
  local hash = unlessWrongType(try('HGETALL', jobKey)) or {}
  if #hash == 0 then -- a job that is gone
    call('ZREM', from .. 'failed', jobId)
    return
  end
  local job, others = {}, {}
  for i = 1, #hash, 2 do
    job[hash[i]] = hash[i + 1]
    if hash[i] ~= 'name' and hash[i] ~= 'data' then
      others[#others + 1] = hash[i]
      others[#others + 1] = hash[i + 1]
    end
  end
  local stays = not job.name or wasCancelled(job) and not given(cancelled)
  local waits = not stays and hasRunningChildren(jobKey)
  if waits then pending = pending + 1 end
  if stays or waits then
    stay = stay + 1
    return
  end
  if not limit then limit, limitFrom = eventLimit(metaKey), eventLimit(from .. 'meta') end
  local failedAt = integerText(job.finishedOn or score)
  local letterId = freeLetterId(jobId)
  local letterKey = base .. letterId
  local letter = {
    name = job.name, data = job.data or '{}', opts = optsOf(jobId, job, failedAt), timestamp = now, delay = '0',
    priority = '0',
  }
  call('ZREM', from .. 'failed', jobId)
  relocateParts(jobKey, letterKey)
  call('DEL', jobKey)
  call('XADD', from .. 'events', 'MAXLEN', '~', limitFrom, '*', 'event', 'removed', 'jobId', jobId, 'prev', 'failed')
  storeJob(letterKey, letterId, letter)
  call('HSET', letterKey, 'original', json(others))
  if job.failedReason then call('HSET', letterKey, 'failedReason', job.failedReason) end
  if job.stacktrace then call('HSET', letterKey, 'stacktrace', job.stacktrace) end
  enqueueJob(base, letterId, letter, now, limit)
  letters[#letters + 1] = letterId
  if given(whole) then letters[#letters + 1] = call('HGETALL', letterKey) end
end

if #found > 0 then checkRename(from, base) end
for i = 1, #found, 2 do move(found[i], found[i + 1]) end
return { #found / 2, stay, pending, unpack(letters) }
