--[[ moveToActive: takes the next job to run, for one lock token.

     Arguments: base the queue's prefix, now (ms), token, lockMs, name of the worker or '', limitMax and limitMs of the
     worker's limiter or ''.
     Answer: {hash, jobId, 0, 0} a job, its hash as field, value, field, value …
             {false, false, ms, 0} the rate limit holds for ms
             {false, false, 0, due} nothing is ready; the first delayed job is due at that time (ms)
             {false, false, 0, 0} nothing at all, or the queue is paused or at its global concurrency.
     Events: waiting for each delayed job that became ready, active. ]]
--@args base now token lockMs name limitMax limitMs
--@use take worker
return take(base, now, workerOf(token, lockMs, name, limitMax, limitMs)) or { false, false, 0, 0 }
