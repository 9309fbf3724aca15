--[[ removeJob: removes a job from whatever state it is in, and its children unless told otherwise.

     Arguments: base, jobId, children '1' to remove them too.
     Answer: 1 removed, or never there; 0 the job, or one of the children, is held by a worker: nothing is changed.
     Errors: -8 it is the next job of a scheduler.
     Events: removed for each, on its own queue; of a parent that it was the last child of waiting. ]]
--@args base jobId children
--@keys repeat
--@use removeTree sound
local scheduler = orNothing(try('HGET', base .. jobId, 'rjk'))
local due = scheduler and call('ZSCORE', repeatKey, scheduler)
if due and jobId == 'repeat:' .. scheduler .. ':' .. due then return -8 end
if anyLocked(base, jobId, children == '1') then return 0 end
removeTree(base, jobId, nil, { keepChildren = children ~= '1' })
return 1
