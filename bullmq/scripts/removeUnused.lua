--[[ removeUnused: deletes a queue without schedulers and jobs. Deletes at most count finished jobs per call, if told to.

     Arguments: base, count, finished ('1' to delete completed and failed jobs; otherwise a queue with such jobs is in use).
     Returns: 0 if everything is deleted, 1 to call again, 2 if the queue is in use. ]]
--@args base count finished
--@keys meta active delayed repeat completed wait paused prioritized failed events stalled-check stalled id pc marker
--@keys waiting-children metrics:completed metrics:completed:data metrics:failed metrics:failed:data
--@use empty legacy extensions
local sets = { delayedKey, prioritizedKey, waitingChildrenKey, repeatKey }
if finished ~= '1' then sets = { delayedKey, prioritizedKey, waitingChildrenKey, repeatKey, completedKey, failedKey } end
for i = 1, #sets do
  if call('ZCARD', sets[i]) > 0 then return 2 end
end
if call('LLEN', activeKey) + countWithoutMarker(waitKey) + countWithoutMarker(pausedKey) > 0 then return 2 end

local left = tonumber(count)
left = left - emptySet(base, completedKey, left)
if left > 0 then left = left - emptySet(base, failedKey, left) end
if left <= 0 then return 1 end
deleteExtensions(base)
call('DEL', waitKey, pausedKey, eventsKey, base .. 'delay', stalledCheckKey, stalledKey, idKey, pcKey, markerKey, metaKey,
  metricsCompletedKey, metricsCompletedDataKey, metricsFailedKey, metricsFailedDataKey)
return 0
