--[[ joinPaused: joins the lists wait and paused in cases in which no other call would do so. If the queue isn't paused, all
     jobs move to wait, because no worker fetches from paused. If the queue is paused and the dialect is BullMQ 5, all jobs
     move to paused, because resume of BullMQ 5 would overwrite wait.
     If the queue isn't paused and has waiting jobs, joinPaused also signals a worker. BullMQ 5 signals none when it resumes
     a queue that BullMQ 6 has paused.

     Arguments: base.
     Returns: the number of jobs moved. ]]
--@args base
--@keys wait paused meta marker active
--@use lists held marker
local isPaused = call('HEXISTS', metaKey, 'paused') == 1
local moved = 0
if not isPaused then
  moved = call('LLEN', pausedKey)
  -- The jobs in paused have waited longer, so the jobs in wait follow them.
  if moved > 0 then
    appendList(waitKey, pausedKey)
    call('RENAME', pausedKey, waitKey)
  end
  if call('EXISTS', waitKey) == 1 then signalReady(markerKey, isHeld(metaKey, activeKey)) end
end
if isPaused then moved = call('LLEN', waitKey) end --@v5
if isPaused then appendList(waitKey, pausedKey) end --@v5
return moved
