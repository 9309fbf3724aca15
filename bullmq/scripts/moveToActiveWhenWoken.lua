--[[ moveToActiveWhenWoken: fetches the next job to run. It is sent behind a blocking wait on the marker, on the same
     connection, so it runs when the wait ends, without a round trip in between.

     Arguments: base, ahead (by how many microseconds the caller's clock is ahead of the server's), before (the time in
     ms, by the caller's clock, when the wait ends by itself), token; then lockMs, name, limitMax and limitMs as for
     moveToActive.
     Returns: the reply of moveToActive, or 0 after that time: the worker was not signalled and may no longer exist, so no
     job is fetched. Also 0 if TIME is forbidden.
     Events: those of moveToActive. ]]
--@args base ahead before token lockMs name limitMax limitMs
--@use fetch worker clock
local us = serverTime()
local now = math.floor((us + tonumber(ahead)) / 1000)
if us == 0 or now >= tonumber(before) then return 0 end
return withServerTime(fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { token }))
