--[[ removeUnprocessedChildren: removes the children of a job that have not finished and are not locked, with their own children.

     Arguments: base, jobId.
     Returns: 0.
     Events: removed for each, on its own queue. ]]
--@args base jobId
--@use remove
removeChildren(base .. jobId, { keepEnded = true, keepLocked = true })
return 0
