--[[ changePriority: gives a job another priority; one that waits moves to its new place.

     Arguments: base, jobId, priority (0 for none), lifo '1' to go before the others of that priority.
     Answer: 0. Errors: -1 no such job. ]]
--@args base jobId priority lifo
--@keys wait prioritized active meta pc marker
--@use gate ready
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
priority = tonumber(priority)
local isHeld = held(metaKey, activeKey)
if call('ZREM', prioritizedKey, jobId) == 1 or call('LREM', lineAt(base), -1, jobId) == 1 then
  if priority ~= 0 and lifo == '1' then
    call('ZADD', prioritizedKey, priority * 4294967296, jobId)
  else
    ready(base, jobId, priority, lifo == '1' and 'RPUSH' or 'LPUSH', isHeld)
  end
end
call('HSET', jobKey, 'priority', priority)
return 0
