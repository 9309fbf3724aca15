--[[ oldRegistrations: returns the queues of a registry that were not registered for some time, unless another call has done so
     within an interval.

     Arguments: base (the prefix of the registry's keys), now (ms, unless the server tells the time), intervalMs, ageMs.
     Returns: the time (ms) before which they were registered, then their names; nothing if another call has returned them. ]]
--@args base now intervalMs ageMs
--@use registry
if not call('SET', base .. 'checked', '1', 'NX', 'PX', intervalMs) then return {} end
local before = registryTime(now) - tonumber(ageMs)
local old = call('ZRANGEBYSCORE', base .. 'queues', '-inf', '(' .. before)
table.insert(old, 1, before)
return old
