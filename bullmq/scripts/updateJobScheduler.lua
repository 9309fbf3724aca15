--[[ updateJobScheduler: adds the next job of the scheduler that made a job which starts. Only the job that stands for
     the scheduler's present slot does that, and only once; calling it again changes nothing.

     Arguments: base, scheduler (its id), now (ms), producer: id of the job that starts, due: the next time (ms) of a
     pattern or '' for an interval, every (ms) of the job's own options or '', opts of the next job (JSON), data: of the
     producer, for a scheduler that BullMQ 5 made without a template.
     Answer: the id of the next job, or nil: the scheduler is gone, another job stands for it, or the slot's job exists.
     The error UNREADABLE: opts are too deep for Redis, or hold numbers that can't be written.
     Events: added, then waiting or delayed; duplicated. ]]
--@args base scheduler now producer due every opts data
--@keys repeat delayed wait meta prioritized marker id events pc active
--@use text every store events sound
local prev = call('ZSCORE', repeatKey, scheduler)
if not prev then return nil end

local recordKey = repeatKey .. ':' .. scheduler
local record = orNothing(try('HMGET', recordKey, 'name', 'data', 'every', 'offset', 'ic'))
if not (record and record[1]) then return nil end -- no scheduler is made without a name
local read, options = pcall(cjson.decode, opts)
if not read then return redis.error_reply('UNREADABLE ' .. options) end
local interval = intervalOf(record[3]) or intervalOf(every)
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  due = nextSlot(tonumber(prev), interval, tonumber(now), wholeOf(record[4] or own))
end
if producer ~= 'repeat:' .. scheduler .. ':' .. prev or not given(due) then return nil end

local jobId = 'repeat:' .. scheduler .. ':' .. due
local limit = cap(metaKey)
if call('EXISTS', base .. jobId) == 1 then
  sayTrimmed(limit, 'duplicated', 'jobId', jobId)
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
call('HSET', recordKey, 'ic', wholeOf(record[5]) + 1)
call('INCR', idKey)

local job = {
  name = record[1], data = record[2] or '{}', opts = text, timestamp = now, delay = options.delay,
  priority = numberOf(options.priority), lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and textOf(options.de.id) or nil,
}
store(base .. jobId, jobId, job)
enqueue(base, jobId, job, now, limit)
call('HSET', base .. producer, 'nrjid', jobId) --@v5
return jobId
