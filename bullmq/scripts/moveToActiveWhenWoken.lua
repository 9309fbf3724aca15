--[[ moveToActiveWhenWoken: takes the next job to run; sent behind a blocked wait on the marker, on the same connection.
     So it is carried out at the moment at which the wait ends, with no way to the worker and back in between.

     Arguments: base, ahead by how many microseconds the caller's clock is ahead of the server's, before (ms, by the
     caller's clock) when the wait ends by itself, token, lockMs, name, limitMax, limitMs as moveToActive has them.
     Answer: that of moveToActive; 0 when it is not before that time any more: nobody has woken the worker, which may
     not even be there any longer, so nothing is taken. 0 also where the server doesn't tell its time.
     Events: those of moveToActive. ]]
--@args base ahead before token lockMs name limitMax limitMs
--@use take worker clock
local us = serverTime()
local now = math.floor((us + tonumber(ahead)) / 1000)
if us == 0 or now >= tonumber(before) then return 0 end
return withTime(take(base, now, workerOf(lockMs, name, limitMax, limitMs), { token }))
