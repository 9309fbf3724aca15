--[[ moveToActive: takes the next job to run, for one lock token.

     Arguments: base the queue's prefix, now (ms), token, lockMs, name of the worker or '', limitMax and limitMs of the
     worker's limiter or ''.
     Answer: {hash, jobId, 0, 0} a job, its hash as field, value, field, value …
             {false, false, ms, 0, us} the rate limit holds for ms
             {false, false, 0, due, us} nothing is ready; the first delayed job is due at that time (ms)
             {false, false, 0, 0, us} nothing at all, or the queue is paused or at its global concurrency.
             us is the server's time in microseconds, as moveToActiveWhenWoken wants it; 0 where TIME is forbidden.
     Events: waiting for each delayed job that became ready, active. ]]
--@args base now token lockMs name limitMax limitMs
--@use take worker clock
return withTime(take(base, now, workerOf(token, lockMs, name, limitMax, limitMs)))
