--[[ joinPaused: brings the lists wait and paused together where nobody would do it any more: into wait when the queue isn't
     paused, for no worker looks into paused; in BullMQ 5 into paused when it is, for its resume would overwrite wait.
     Where jobs wait and the queue isn't paused, a worker is woken: BullMQ 5 wakes none when it resumes what 6 has paused.

     Arguments: base.
     Answer: how many jobs were moved. ]]
--@args base
--@keys wait paused meta marker active
--@use line gate marker
local isPaused = call('HEXISTS', metaKey, 'paused') == 1
local moved = 0
if not isPaused then
  moved = call('LLEN', pausedKey)
  -- What stands in paused has waited for longer: wait joins it, and takes its place.
  if moved > 0 then
    joinLine(waitKey, pausedKey)
    call('RENAME', pausedKey, waitKey)
  end
  if call('EXISTS', waitKey) == 1 then wake(markerKey, held(metaKey, activeKey)) end
end
if isPaused then moved = call('LLEN', waitKey) end --@v5
if isPaused then joinLine(waitKey, pausedKey) end --@v5
return moved
