--[[ extendLock: renews one job's lock and clears its mark of the stalled check.

     Arguments: base, jobId, token, lockMs.
     Answer: 1 renewed, 0 the lock is gone or another's. ]]
--@args base jobId token lockMs
--@keys stalled
local lockKey = base .. jobId .. ':lock'
if call('GET', lockKey) ~= token then return 0 end
call('SET', lockKey, token, 'PX', lockMs)
call('SREM', stalledKey, jobId)
return 1
