--[[ moveToActiveWhenWoken: fetches the next job to run. It is sent after a blocking wait for the marker, on the same
     connection. So it runs when the wait ends, without a round trip in between.

     Arguments: base, ahead (how far the caller's clock is ahead of the server's, in microseconds), before (the time when
     the wait times out, in ms by the caller's clock), token; then lockMs, name, limitMax and limitMs as for moveToActive.
     Returns: the reply of moveToActive. After the wait has timed out, it fetches no job and returns 0, because the worker was
     not signalled and may no longer exist. It also returns 0 if TIME is forbidden.
     Events: those of moveToActive. ]]
--@args base ahead before token lockMs name limitMax limitMs
--@use fetch worker clock
local us = serverTime()
local now = math.floor((us + tonumber(ahead)) / 1000)
if us == 0 or now >= tonumber(before) then return 0 end
return withServerTime(fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { token }))
