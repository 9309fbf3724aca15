--[[ obliterate: deletes a paused queue with all its jobs, at most count jobs per call.

     Arguments: base, count, force ('1' to delete active jobs with their locks).
     Returns: 0 if everything is deleted, 1 to call again.
     Errors: -1 the queue isn't paused, -2 jobs are active and force isn't given. ]]
--@args base count force
--@keys meta active delayed repeat completed wait paused prioritized failed events stalled-check stalled id pc marker
--@keys metrics:completed metrics:completed:data metrics:failed metrics:failed:data
--@use empty extensions
if call('HEXISTS', metaKey, 'paused') == 0 then return -1 end
local left = tonumber(count)
local running = call('LRANGE', activeKey, 0, left - 1)
if #running > 0 and force ~= '1' then return -2 end
for i = 1, #running do call('DEL', base .. running[i] .. ':lock') end

local function deleteSchedulers()
  local ids = call('ZRANGE', repeatKey, 0, left - 1)
  for i = 1, #ids do call('DEL', repeatKey .. ':' .. ids[i]) end
  removeIds(repeatKey, ids)
  return #ids
end

local steps = {
  { emptyList, activeKey }, { emptySet, delayedKey }, { deleteSchedulers }, { emptySet, completedKey },
  { emptyList, waitKey }, { emptyList, pausedKey }, { emptySet, prioritizedKey }, { emptySet, failedKey },
}
for i = 1, #steps do
  left = left - steps[i][1](base, steps[i][2], left)
  if left <= 0 then return 1 end
end
deleteExtensions(base)
call('DEL', eventsKey, base .. 'delay', stalledCheckKey, stalledKey, idKey, pcKey, markerKey, metaKey, metricsCompletedKey,
  metricsCompletedDataKey, metricsFailedKey, metricsFailedDataKey)
return 0
