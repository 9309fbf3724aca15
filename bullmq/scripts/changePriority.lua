--[[ changePriority: changes the priority of a job. A waiting job moves to its new place.

     Arguments: base, jobId, priority (0 for none), lifo ('1' to run before the others of that priority).
     Returns: 0. Errors: -1 no such job. ]]
--@args base jobId priority lifo
--@keys wait prioritized active meta pc marker
--@use held ready
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
priority = tonumber(priority)
local held = isHeld(metaKey, activeKey)
if call('ZREM', prioritizedKey, jobId) == 1 or call('LREM', waitList(base), -1, jobId) == 1 then
  if priority ~= 0 and lifo == '1' then
    call('ZADD', prioritizedKey, priority * 4294967296, jobId)
  else
    makeReady(base, jobId, priority, lifo == '1' and 'RPUSH' or 'LPUSH', held)
  end
end
call('HSET', jobKey, 'priority', priority)
return 0
