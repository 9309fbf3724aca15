--[[ addPlainJobs: adds jobs that have no custom id, parent, children, scheduler and deduplication id. Most jobs are of this
     kind. The other commands that add jobs do the same for one job of any kind.

     Arguments: base, kinds (a digit for each job, see codec.go); then for each job its data (JSON); its name, opts (JSON as
     stored) and timestamp (ms), unless they equal those of the previous job; and for kind '2' its delay (ms) and priority.
     Returns: the number of the first job; the ids of the others follow it.
     Events: for each job added, then waiting or delayed. ]]
--@args base kinds ...
--@use addPlain
return addPlain(base, kinds, rest)
