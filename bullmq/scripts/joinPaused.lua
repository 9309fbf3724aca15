--[[ joinPaused: joins the lists wait and paused where no other call would: into wait if the queue isn't paused, since no worker
     fetches from paused; in BullMQ 5 into paused if it is, since its resume would overwrite wait. If jobs wait and the
     queue isn't paused, it signals a worker: BullMQ 5 signals none when it resumes a queue that BullMQ 6 has paused.

     Arguments: base.
     Returns: how many jobs were moved. ]]
--@args base
--@keys wait paused meta marker active
--@use lists held marker
local isPaused = call('HEXISTS', metaKey, 'paused') == 1
local moved = 0
if not isPaused then
  moved = call('LLEN', pausedKey)
  -- The jobs in paused have waited for longer, so those in wait go behind them.
  if moved > 0 then
    appendList(waitKey, pausedKey)
    call('RENAME', pausedKey, waitKey)
  end
  if call('EXISTS', waitKey) == 1 then signalReady(markerKey, isHeld(metaKey, activeKey)) end
end
if isPaused then moved = call('LLEN', waitKey) end --@v5
if isPaused then appendList(waitKey, pausedKey) end --@v5
return moved
