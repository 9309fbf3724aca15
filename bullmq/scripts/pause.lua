--[[ pause: stops the whole queue: no worker takes a job until resume. Waiting jobs stay where they are.

     Events: paused. ]]
--@args base
--@keys meta marker events
--@use events
call('HSET', metaKey, 'paused', 1)
call('DEL', markerKey)
say(eventsKey, 'paused')
return 0
