--[[ resume: resumes the queue. Jobs that BullMQ 5 has moved to the list paused return to wait, in order, at most 7000 per
     call. The caller repeats the call until it returns 0.

     Arguments: base, quiet ('1' on repeated calls: no event).
     Returns: the number of jobs left in paused.
     Events: resumed. ]]
--@args base quiet
--@keys meta paused wait prioritized delayed marker events
--@use events marker
local wasPaused = call('HDEL', metaKey, 'paused') == 1 --@v5
call('HDEL', metaKey, 'paused') --@v6
local hadParked = call('EXISTS', pausedKey) == 1
local parked = 0
if hadParked then
  if call('EXISTS', waitKey) == 0 then
    call('RENAME', pausedKey, waitKey)
  else
    local some = call('LRANGE', pausedKey, 0, 6999)
    call('RPUSH', waitKey, unpack(some))
    call('LTRIM', pausedKey, #some, -1)
    parked = call('LLEN', pausedKey)
  end
end
local isReady = call('LLEN', waitKey) + call('ZCARD', prioritizedKey) > 0
-- BullMQ 5 ignores wait here, because wait is empty while BullMQ 5 has paused the queue.
isReady = isReady and (hadParked or wasPaused or call('ZCARD', prioritizedKey) > 0) --@v5
if isReady then
  signalReady(markerKey, false)
else
  signalDelayed(markerKey, delayedKey)
end
if quiet ~= '1' then emit(eventsKey, 'resumed') end
return parked
