--[[ pauseJobScheduler: takes a scheduler out of the queue, with its next job if that is still delayed, and keeps its record
     for a later resume.

     Arguments: base, scheduler (its id), now (ms).
     Returns: 0, 1 if there is none, 2 if it is paused already.
     Events: removed for the job. ]]
--@args base scheduler now
--@keys repeat delayed events
--@use delete events pausedSchedulers
local due = call('ZSCORE', repeatKey, scheduler)
if not due then return call('HEXISTS', pausedSchedulers(base), scheduler) == 1 and 2 or 1 end
local record = call('HGETALL', repeatKey .. ':' .. scheduler)
if #record == 0 then return 1 end
call('HSET', pausedSchedulers(base), scheduler, cjson.encode({ due, now, unpack(record) }))
local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('ZREM', delayedKey, jobId) == 1 then
  deleteJob(base .. jobId)
  emit(eventsKey, 'removed', 'jobId', jobId, 'prev', 'delayed')
end
call('ZREM', repeatKey, scheduler)
call('DEL', repeatKey .. ':' .. scheduler)
return 0
