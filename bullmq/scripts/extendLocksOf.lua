--[[ extendLocksOf: renews the locks of jobs of several queues.

     Arguments: lockMs, then for each queue the number of its locks, and jobId, token, jobId, token …
     Returns: for each queue {lost, cancelled} as extendLocks does, or a text if its values can't be processed. ]]
--@queues stalled
--@args lockMs ...
--@use renew perQueue
local renewals, at = {}, rest
for n = 1, #queues - 1 do
  local to = at + 2 * ARGV[at]
  local fine, lost, cancelled = orText(pcall(renewLocks, useQueue(n), lockMs, at + 1, to))
  renewals[n] = fine and { lost, cancelled } or lost
  at = to + 1
end
return renewals
