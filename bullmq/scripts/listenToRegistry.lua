--[[ listenToRegistry: reads the queues of a registry for a listener, and renews its lease. Queues that clients without scripts
     have announced in the sorted set new are registered first.

     Arguments: base (the prefix of the registry's keys), now (ms, unless the server tells the time), listener, leaseMs, since ('' for all queues, or a time in ms that an
     earlier call has returned), the names of queues that the listener has taken from new itself.
     Returns: {time, all, names}. names are all queues if all is 1, and otherwise those that were registered since then. They are
     all if since is '', or if a queue was removed after the last call of this listener. ]]
--@args base now listener leaseMs since ...
--@use registry
local time = registryTime(now)
local announced = call('ZRANGE', base .. 'new', 0, 999)
if announced[1] then call('ZREM', base .. 'new', unpack(announced)) end
for i = rest, #ARGV do announced[#announced + 1] = ARGV[i] end
registerAll(base, time, announced)

local wake = base .. 'wake:' .. listener
local all = since == '' or call('ZSCORE', wake, 'all')
call('DEL', wake)
call('ZADD', base .. 'listeners', time + tonumber(leaseMs), listener)
if all then return { time, 1, call('ZRANGE', base .. 'queues', 0, -1) } end
return { time, 0, call('ZRANGEBYSCORE', base .. 'queues', since, '+inf') }
