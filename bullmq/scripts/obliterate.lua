--[[ obliterate: deletes a paused queue with all its jobs, at most count jobs per call.

     Arguments: base, count, force ('1' to delete active jobs with their locks).
     Returns: 0 if everything is deleted, 1 to call again.
     Errors: -1 the queue isn't paused, -2 jobs are active and force isn't given. ]]
--@args base count force
--@keys meta active delayed repeat completed wait paused prioritized failed events stalled-check stalled id pc marker
--@keys metrics:completed metrics:completed:data metrics:failed metrics:failed:data
--@use empty
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
-- The client may not be allowed to touch the extensions.
local extension = string.sub(base, 1, -2) .. '@x:'
try('DEL', extension .. 'events')
local workers, own = try('ZRANGE', extension .. 'workers', 0, -1), extension .. 'worker:'
for i = 1, #workers do
  if string.sub(workers[i], 1, #own) == own then try('DEL', workers[i]) end
end
try('DEL', extension .. 'workers')
call('DEL', eventsKey, base .. 'delay', stalledCheckKey, stalledKey, idKey, pcKey, markerKey, metaKey, metricsCompletedKey,
  metricsCompletedDataKey, metricsFailedKey, metricsFailedDataKey)
return 0
