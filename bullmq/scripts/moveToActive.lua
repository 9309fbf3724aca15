--[[ moveToActive: takes the next jobs to run, one for each lock token.

     Arguments: base the queue's prefix, now (ms), lockMs, name of the worker or '', limitMax and limitMs of the worker's
     limiter or '', the tokens.
     Answer: {{job …, job …}, 0, 0, now} jobs under the tokens in their order, each with its hash as it was before the start:
             as n, jobId, then n texts, field, value …; where it has no other fields than name, data, opts, timestamp,
             delay and priority, as -1, jobId and those six values; and where delay and priority are '0', as jobId, name,
             data, opts, timestamp, with null for a name or opts like those of the last job of this kind. Maybe fewer jobs
             than there are to be had.
             {{}, ms, 0, us} the rate limit holds for ms
             {{}, 0, due, us} nothing is ready; the first delayed job is due at that time (ms)
             {{}, 0, 0, us} nothing at all, or the queue is paused or at its global concurrency.
             us is the server's time in microseconds, as moveToActiveWhenWoken wants it; 0 where TIME is forbidden.
     Events: waiting for each delayed job that became ready, active. ]]
--@args base now lockMs name limitMax limitMs ...
--@use take worker clock
return withTime(take(base, now, workerOf(lockMs, name, limitMax, limitMs), { unpack(ARGV, rest) }))
