--[[ registerQueues: adds queues to a registry, or renews their entries.

     Arguments: base (the prefix of the registry's keys), now (ms, unless the server tells the time), the names of the queues.
     Returns: the number of queues that are new. ]]
--@args base now ...
--@use registry
return registerAll(base, registryTime(now), { unpack(ARGV, rest) })
