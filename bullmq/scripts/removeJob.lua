--[[ removeJob: removes a job in any state and optionally its children.

     Arguments: base, jobId, children ('1' to remove them too).
     Returns: 1 if removed; 2 if there is no such job; 0 if a worker holds the lock of the job or of one of the children, in
     which case nothing is changed.
     Errors: -8 it is the next job of a scheduler.
     Events: removed for each, on its own queue; waiting for a parent that has lost its last child. ]]
--@args base jobId children
--@keys repeat
--@use remove safeRead
local scheduler = unlessWrongType(try('HGET', base .. jobId, 'rjk'))
local due = scheduler and call('ZSCORE', repeatKey, scheduler)
if due and jobId == 'repeat:' .. scheduler .. ':' .. due then return -8 end
if isLocked(base, jobId, children == '1') then return 0 end
return removeJob(base, jobId, nil, { keepChildren = children ~= '1' }) and 1 or 2
