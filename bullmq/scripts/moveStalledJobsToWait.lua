--[[ moveStalledJobsToWait: moves jobs whose worker has died back to wait. All workers together make this check at most once
     within checkMs.

     Arguments: base, now (ms), maxStalled, checkMs.
     Returns: the ids of the stalled jobs. A job that stalled more often than maxStalled gets defa and fails at its next
     start, unless it belongs to a scheduler that exists.
     Events: waiting and stalled for each. ]]
--@args base now maxStalled checkMs
--@use stalled
return requeueStalled(base, now, maxStalled, checkMs)
