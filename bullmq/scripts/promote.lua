--[[ promote: makes a delayed job ready now.

     Arguments: base, jobId.
     Answer: 0. Errors: -3 it isn't delayed.
     Events: waiting. ]]
--@args base jobId
--@keys delayed wait prioritized active meta pc marker events
--@use gate ready events sound
if call('ZREM', delayedKey, jobId) == 0 then return -3 end
local isHeld = held(metaKey, activeKey)
local line = lineAt(base)
local newest = call('LINDEX', line, 0)
if newest and string.sub(newest, 1, 2) == '0:' then call('LPOP', line) end
ready(base, jobId, priorityOf(base .. jobId), 'LPUSH', isHeld)
say(eventsKey, 'waiting', 'jobId', jobId, 'prev', 'delayed')
orNothing(try('HSET', base .. jobId, 'delay', 0)) -- what is no hash goes when it is taken
return 0
