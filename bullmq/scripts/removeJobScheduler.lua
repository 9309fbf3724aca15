--[[ removeJobScheduler: removes a scheduler, also a paused one, and its next job, if that is still delayed.

     Arguments: base, scheduler (its id).
     Returns: 0, or 1 if there was none.
     Events: removed for the job. ]]
--@args base scheduler
--@keys repeat delayed events
--@use delete events pausedSchedulers
local due = call('ZSCORE', repeatKey, scheduler)
local wasPaused = forgetPaused(base, scheduler)
if not due then return wasPaused and 0 or 1 end
local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('ZREM', delayedKey, jobId) == 1 then
  deleteJob(base .. jobId)
  emit(eventsKey, 'removed', 'jobId', jobId, 'prev', 'delayed')
end
call('ZREM', repeatKey, scheduler)
call('DEL', repeatKey .. ':' .. scheduler)
return 0
