--[[ updateJobScheduler: adds the next job of the scheduler that made a job which starts. Only the job that stands for
     the scheduler's present slot does that, and only once; calling it again changes nothing.

     Arguments: base, scheduler (its id), now (ms), producer: id of the job that starts, due: the next time (ms) of a
     pattern or '' for an interval, every (ms) of the job's own options or '', opts of the next job (JSON), data: of the
     producer, for a scheduler that BullMQ 5 made without a template.
     Answer: the id of the next job, or nil: the scheduler is gone, another job stands for it, or the slot's job exists.
     Events: added, then waiting or delayed; duplicated. ]]
--@args base scheduler now producer due every opts data
--@keys repeat delayed wait meta prioritized marker id events pc active
--@use text every store events
local prev = call('ZSCORE', repeatKey, scheduler)
if not prev then return nil end

local recordKey = repeatKey .. ':' .. scheduler
local record = call('HMGET', recordKey, 'name', 'data', 'every', 'offset', 'ic')
local options = cjson.decode(opts)
local interval = tonumber(record[3]) or tonumber(every)
if interval then
  local own = type(options['repeat']) == 'table' and options['repeat'].offset
  due = nextSlot(tonumber(prev), interval, tonumber(now), tonumber(record[4] or own) or 0)
end
if producer ~= 'repeat:' .. scheduler .. ':' .. prev or not given(due) then return nil end

local jobId = 'repeat:' .. scheduler .. ':' .. due
local limit = cap(metaKey)
if call('EXISTS', base .. jobId) == 1 then
  sayTrimmed(limit, 'duplicated', 'jobId', jobId)
  return nil
end
call('ZADD', repeatKey, due, scheduler)
local isLegacy = not record[5]
isLegacy = true --@v5
if not record[2] and isLegacy and data ~= '{}' then
  call('HSET', recordKey, 'data', data)
  record[2] = data
end
call('HINCRBY', recordKey, 'ic', 1)
call('INCR', idKey)

options.delay = math.max(due - now, 0)
options.jobId = jobId
local job = {
  name = record[1], data = record[2] or '{}', opts = cjson.encode(options), timestamp = now, delay = options.delay,
  priority = options.priority or 0, lifo = options.lifo, scheduler = scheduler,
  dedupId = type(options.de) == 'table' and options.de.id or nil,
}
store(base .. jobId, jobId, job)
enqueue(base, jobId, job, now, limit)
call('HSET', base .. producer, 'nrjid', jobId) --@v5
return jobId
