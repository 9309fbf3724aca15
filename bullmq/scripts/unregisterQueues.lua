--[[ unregisterQueues: removes queues from a registry.

     Arguments: base (the prefix of the registry's keys), now (ms, unless the server tells the time), before ('' or a time in ms: queues that were registered since then
     stay), the names of the queues.
     Returns: the names of the queues that were removed. ]]
--@args base now before ...
--@use registry
local removed = {}
for i = rest, #ARGV do
  local name, stays = ARGV[i], false
  if before ~= '' then
    local score = call('ZSCORE', base .. 'queues', name)
    stays = score and tonumber(score) >= tonumber(before)
  else
    call('ZREM', base .. 'new', name)
  end
  if not stays and call('ZREM', base .. 'queues', name) == 1 then removed[#removed + 1] = name end
end
if removed[1] then wakeListeners(base, registryTime(now), 'all') end
return removed
