--[[ moveToActive: fetches the next jobs to run, one for each lock token. It may fetch fewer jobs than there are.

     Arguments: base, now (ms), lockMs, name (of the worker, or ''), limitMax and limitMs (the limiter of the worker,
     or ''), then the tokens.
     Returns: {jobs, 0, 0, now} the jobs, in the order of the tokens, in the form that codec.go documents
              {{}, ms, 0, us} the rate limit is in effect for ms
              {{}, 0, due, us} no job is ready, and the first delayed one is due at that time (ms)
              {{}, 0, 0, us} there is no job at all, or the queue is paused or at its global concurrency.
     us is the server's time in microseconds, for moveToActiveWhenWoken; 0 if TIME is forbidden.
     Events: waiting for each promoted job; active. ]]
--@args base now lockMs name limitMax limitMs ...
--@use fetch worker clock
return withServerTime(fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), { unpack(ARGV, rest) }))
