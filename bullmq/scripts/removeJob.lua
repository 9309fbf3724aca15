--[[ removeJob: removes a job from whatever state it is in, and its children unless told otherwise.

     Arguments: base, jobId, children '1' to remove them too.
     Answer: 1 the job was removed, 2 there is no such job, 0 a worker holds the lock of the job or of one of the
     children, and nothing was changed.
     Errors: -8 it is the next job of a scheduler.
     Events: removed for each, on its own queue; of a parent that it was the last child of waiting. ]]
--@args base jobId children
--@keys repeat
--@use removeTree sound
local scheduler = orNothing(try('HGET', base .. jobId, 'rjk'))
local due = scheduler and call('ZSCORE', repeatKey, scheduler)
if due and jobId == 'repeat:' .. scheduler .. ':' .. due then return -8 end
if anyLocked(base, jobId, children == '1') then return 0 end
return removeTree(base, jobId, nil, { keepChildren = children ~= '1' }) and 1 or 2
