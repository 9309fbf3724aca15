--[[ isMaxed: does the queue run as many jobs as its global concurrency allows?

     Answer: 1 or 0. ]]
--@args base
--@keys meta active
local allowed = tonumber(call('HGET', metaKey, 'concurrency'))
if allowed and call('LLEN', activeKey) >= allowed then return 1 end
return 0
