--[[ pause: stops the whole queue: no worker takes a job until resume. Waiting jobs stay where they are.

     In BullMQ 5 they move to the list paused; jobs that stand there already stay ahead of them.

     Events: paused. ]]
--@args base
--@keys meta marker events
--@keys wait paused --@v5
--@use events
--@use line --@v5
joinLine(waitKey, pausedKey) --@v5
call('HSET', metaKey, 'paused', 1)
call('DEL', markerKey)
say(eventsKey, 'paused')
return 0
