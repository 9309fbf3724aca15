--[[ extendLock: renews the lock of a job and clears its mark of the stalled check.

     Arguments: base, jobId, token, lockMs.
     Returns: 1 if renewed, 0 if the lock has expired or has another token. ]]
--@args base jobId token lockMs
--@keys stalled
local lockKey = base .. jobId .. ':lock'
if call('GET', lockKey) ~= token then return 0 end
call('SET', lockKey, token, 'PX', lockMs)
call('SREM', stalledKey, jobId)
return 1
