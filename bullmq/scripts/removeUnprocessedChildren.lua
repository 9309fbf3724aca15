--[[ removeUnprocessedChildren: removes those children of a job that have not finished and are not locked. The children of
     these children are removed too.

     Arguments: base, jobId.
     Returns: 0.
     Events: removed for each, on its own queue. ]]
--@args base jobId
--@use remove
removeChildren(base .. jobId, { keepEnded = true, keepLocked = true })
return 0
