--[[ removeUnprocessedChildren: removes those children of a job that have neither ended nor run, with their own.

     Arguments: base, jobId.
     Answer: 0.
     Events: removed for each, on its own queue. ]]
--@args base jobId
--@use removeTree
removeChildren(base .. jobId, { keepEnded = true, keepLocked = true })
return 0
