--[[ promote: makes a delayed job ready now.

     Arguments: base, jobId.
     Returns: 0. Errors: -3 it isn't delayed, or there is no such job.
     Events: waiting. ]]
--@args base jobId
--@keys delayed wait prioritized active meta pc marker events
--@use held ready events safeRead
if call('ZREM', delayedKey, jobId) == 0 then return -3 end
local held = isHeld(metaKey, activeKey)
local line = waitList(base)
local newest = call('LINDEX', line, 0)
if newest and string.sub(newest, 1, 2) == '0:' then call('LPOP', line) end
makeReady(base, jobId, priorityOf(base .. jobId), 'LPUSH', held)
emit(eventsKey, 'waiting', 'jobId', jobId, 'prev', 'delayed')
unlessWrongType(try('HSET', base .. jobId, 'delay', 0)) -- the next fetch drops a key that is not a hash
return 0
