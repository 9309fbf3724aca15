--[[ moveStalledJobsOf: makes the check of moveStalledJobsToWait in several queues.

     Arguments: now (ms), maxStalled, checkMs.
     Returns: for each queue the ids of its stalled jobs, or a text if its values can't be processed.
     Events: waiting and stalled for each stalled job. ]]
--@queues stalled-check
--@args now maxStalled checkMs
--@use stalled perQueue
local moved, _ = {}, nil
for n = 1, #queues - 1 do
  _, moved[n] = orText(pcall(requeueStalled, useQueue(n), now, maxStalled, checkMs))
end
return moved
