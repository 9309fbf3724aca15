--[[ removeJobScheduler: removes a scheduler with its next job, if that is still delayed.

     Arguments: base, scheduler (its id).
     Answer: 0 removed, 1 there was none.
     Events: removed of the job. ]]
--@args base scheduler
--@keys repeat delayed events
--@use drop events
local due = call('ZSCORE', repeatKey, scheduler)
if not due then return 1 end
local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('ZREM', delayedKey, jobId) == 1 then
  dropJob(base .. jobId)
  say(eventsKey, 'removed', 'jobId', jobId, 'prev', 'delayed')
end
call('ZREM', repeatKey, scheduler)
call('DEL', repeatKey .. ':' .. scheduler)
return 0
