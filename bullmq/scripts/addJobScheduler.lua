--[[ addJobScheduler: adds or changes a scheduler, and adds its next job, which replaces the pending one.

     Arguments: base, scheduler (its id), now (ms), name, data (JSON), template (options of its jobs, JSON), opts (options
     of the next job, JSON), due (the next time in ms of a pattern, or ''), every (ms, or ''); then pattern, tz, limit,
     startDate, endDate (ms) and offset (ms), each '' if not set; resumed ('1' to put back a paused scheduler).
     Returns: {id of the next job, its delay}; for resumed {'', 0} if the scheduler is not paused, {'', 1} if there is another one with its
     id, which is kept.
     Errors: -10 the job for the next time of the pattern exists and isn't pending, -11 the jobs for the next times of the
     interval exist.
     Events: added, then waiting or delayed. ]]
--@args base scheduler now name data template opts due every pattern tz limit startDate endDate offset resumed
--@keys repeat delayed wait paused meta prioritized marker id events pc active
--@use text interval store events discard safeRead pausedSchedulers
local recordKey = repeatKey .. ':' .. scheduler
local trimTo = eventLimit(metaKey)
local prev = tonumber(call('ZSCORE', repeatKey, scheduler))
local options = cjson.decode(opts)
local interval = tonumber(every)
now = tonumber(now)

-- A paused scheduler continues with its record, and an interval at its times.
if given(resumed) then
  local stored = call('HGET', pausedSchedulers(base), scheduler)
  if not stored then return { '', 0 } end
  if prev then
    forgetPaused(base, scheduler)
    return { '', 1 }
  end
  stored = cjson.decode(stored)
  prev = tonumber(stored[1])
  call('DEL', recordKey)
  call('HSET', recordKey, unpack(stored, 3))
end

local function giveUp()
  if given(resumed) then call('DEL', recordKey) end
end

local shift, restarted = tonumber(offset), false
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  local wanted = shift or own or 0
  local from = prev and (given(resumed) and prev - interval or prev)
  if prev and tonumber(unlessWrongType(try('HGET', recordKey, 'every'))) ~= interval then
    from, restarted = nil, true
  end
  due = from and nextRun(from, interval, now, wanted) or firstRun(interval, now, wanted, tonumber(startDate))
  shift = offsetOf(due, interval, wanted)
end

-- replaced removes the pending job. While the queue is paused it searches only the list paused, as BullMQ 6.7.0 does.
local function replaced(jobId)
  local gone = call('ZREM', delayedKey, jobId) == 1 or call('ZREM', prioritizedKey, jobId) == 1
  if not gone then
    local list = call('HEXISTS', metaKey, 'paused') == 1 and pausedKey or waitKey
    gone = call('LREM', list, 1, jobId) == 1
  end
  if gone then discardJob(base, jobId) end
  return gone
end

local stored = tonumber(offset)
local swapped = false
if prev then
  local pending = 'repeat:' .. scheduler .. ':' .. prev
  swapped = call('EXISTS', base .. pending) == 1 and replaced(pending)
end
if swapped then
  if interval and not restarted then due = prev end
else
  stored = shift or 0
end

local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('EXISTS', base .. jobId) == 1 then
  if not interval then
    if not swapped then
      giveUp()
      return -10
    end
  else
    local tries = 0
    repeat
      if tries == 32 then
        giveUp()
        return -11
      end
      tries = tries + 1
      due = due + interval
      jobId = 'repeat:' .. scheduler .. ':' .. due
    until call('EXISTS', base .. jobId) == 0
  end
end

call('ZADD', repeatKey, due, scheduler)
local known = unlessWrongType(try('HMGET', recordKey, 'offset', 'ic')) or {}
local record = { 'name', name }
local function keep(field, value)
  if given(value) then
    record[#record + 1] = field
    record[#record + 1] = value
  end
end
keep('tz', tz)
keep('limit', limit)
keep('pattern', pattern)
keep('startDate', startDate)
keep('endDate', endDate)
keep('every', every)
keep('offset', stored or (known[1] and tonumber(known[1])) or nil)
if template ~= '{}' then keep('opts', template) end
if data ~= '{}' then keep('data', data) end
keep('ic', known[2] or 1)
forgetPaused(base, scheduler)
call('DEL', recordKey)
call('HSET', recordKey, unpack(record))

call('INCR', idKey)
options.delay = math.max(due - now, 0)
options.jobId = jobId
local job = {
  name = name, data = data, opts = cjson.encode(options), timestamp = now, delay = options.delay,
  priority = options.priority or 0, lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and options.de.id or nil,
}
storeJob(base .. jobId, jobId, job)
enqueueJob(base, jobId, job, now, trimTo)
return { jobId, options.delay }
