--[[ extendLocks: renews the locks of many jobs.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Returns: {lost, cancelled}. lost: the ids of jobs whose lock has expired or has another token. cancelled: jobId, defa, jobId,
     defa … of jobs that were cancelled while they run. A failed child also writes defa, but its parent runs on. ]]
--@args base lockMs ...
--@use renew
return { renewLocks(base, lockMs, rest, #ARGV) }
