--[[ getState: returns the state of a job.

     Arguments: base, jobId.
     Returns: completed, failed, delayed, prioritized, active, waiting, waiting-children or unknown. ]]
--@args base jobId
--@use state
return stateOf(jobId)
