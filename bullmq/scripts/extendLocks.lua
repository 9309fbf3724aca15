--[[ extendLocks: renews the locks of many jobs.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Returns: {lost, cancelled}. lost has the ids of jobs whose lock has expired or has another token. cancelled has two
     values for each job that was cancelled while it ran: jobId and defa. A failed child also writes defa to its parent, but
     the parent continues to run. ]]
--@args base lockMs ...
--@use renew
return { renewLocks(base, lockMs, rest, #ARGV) }
