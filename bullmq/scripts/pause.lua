--[[ pause: pauses the queue: no worker fetches a job until resume. BullMQ 6 leaves the waiting jobs in wait.
     BullMQ 5 moves them to the list paused, after the jobs already there.

     Arguments: base.
     Returns: 0.
     Events: paused. ]]
--@args base
--@keys meta marker events
--@keys wait paused --@v5
--@use events
--@use lists --@v5
appendList(waitKey, pausedKey) --@v5
call('HSET', metaKey, 'paused', 1)
call('DEL', markerKey)
emit(eventsKey, 'paused')
return 0
