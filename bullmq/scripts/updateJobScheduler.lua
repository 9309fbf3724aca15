--[[ updateJobScheduler: adds the next job of a scheduler when the current job starts. A repeated call, or a call for another
     job, changes nothing.

     Arguments: base, scheduler (its id), now (ms), producer (id of the starting job), due (the next time in ms of a
     pattern, or '' for an interval), every (ms of the job's own options, or ''), opts of the next job (JSON), data (of
     the producer, for a scheduler that BullMQ 5 made without a template).
     Returns: the id of the next job, or nil if the scheduler does not exist, has another current job, or its next job exists.
     Errors: UNREADABLE if opts are nested too deep for Redis, or contain numbers that can't be written.
     Events: added, then waiting or delayed; duplicated if the next job exists. ]]
--@args base scheduler now producer due every opts data
--@keys repeat delayed wait meta prioritized marker id events pc active
--@use text interval store events safeRead
local prev = call('ZSCORE', repeatKey, scheduler)
if not prev then return nil end

local recordKey = repeatKey .. ':' .. scheduler
local record = unlessWrongType(try('HMGET', recordKey, 'name', 'data', 'every', 'offset', 'ic'))
if not (record and record[1]) then return nil end -- every scheduler has a name
local read, options = pcall(cjson.decode, opts)
if not read then return redis.error_reply('UNREADABLE ' .. options) end
local interval = toInterval(record[3]) or toInterval(every)
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  due = nextRun(tonumber(prev), interval, tonumber(now), toInteger(record[4] or own))
end
if producer ~= 'repeat:' .. scheduler .. ':' .. prev or not given(due) then return nil end

local jobId = 'repeat:' .. scheduler .. ':' .. due
local limit = eventLimit(metaKey)
if call('EXISTS', base .. jobId) == 1 then
  emitTrimmed(limit, 'duplicated', 'jobId', jobId)
  return nil
end
options.delay = math.max(due - now, 0)
options.jobId = jobId
local written, text = pcall(cjson.encode, options)
if not written then return redis.error_reply('UNREADABLE ' .. text) end
call('ZADD', repeatKey, due, scheduler)
local isLegacy = not record[5]
isLegacy = true --@v5
if not record[2] and isLegacy and data ~= '{}' then
  call('HSET', recordKey, 'data', data)
  record[2] = data
end
call('HSET', recordKey, 'ic', toInteger(record[5]) + 1)
call('INCR', idKey)

local job = {
  name = record[1], data = record[2] or '{}', opts = text, timestamp = now, delay = options.delay,
  priority = toNumber(options.priority), lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and toText(options.de.id) or nil,
}
storeJob(base .. jobId, jobId, job)
enqueueJob(base, jobId, job, now, limit)
call('HSET', base .. producer, 'nrjid', jobId) --@v5
return jobId
