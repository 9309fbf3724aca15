--[[ joinPaused: joins the lists wait and paused where no other call would. If the queue isn't paused, the jobs move to wait,
     since no worker fetches from paused. If it is paused in BullMQ 5, they move to paused, since its resume would
     overwrite wait. If jobs wait and the queue isn't paused, it signals a worker, because BullMQ 5 does not when it
     resumes a queue that BullMQ 6 has paused.

     Arguments: base.
     Returns: the number of jobs moved. ]]
--@args base
--@keys wait paused meta marker active
--@use lists held marker
local isPaused = call('HEXISTS', metaKey, 'paused') == 1
local moved = 0
if not isPaused then
  moved = call('LLEN', pausedKey)
  -- The jobs in paused have waited longer, so those in wait follow them.
  if moved > 0 then
    appendList(waitKey, pausedKey)
    call('RENAME', pausedKey, waitKey)
  end
  if call('EXISTS', waitKey) == 1 then signalReady(markerKey, isHeld(metaKey, activeKey)) end
end
if isPaused then moved = call('LLEN', waitKey) end --@v5
if isPaused then appendList(waitKey, pausedKey) end --@v5
return moved
