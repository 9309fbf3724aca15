--[[ forwardJob: moves an active job to another queue, where it waits as if it had been added there. The start is not
     counted, and it consumes no attempt.

     Arguments: (queues: that of the job, and the other one) now (ms), jobId, token, ttl (ms) and flags of its deduplication
     as for an add, lifo ('1' or '').
     Returns: {id, outcome}: the id in the other queue, and ''. If the job was dropped, as an add of it would be, the id is that
     of another job, and the outcome exists or deduplicated.
     Errors: -1 no such job, -2 it has no lock, -3 it isn't active (its lock is released then), -6 the lock has another token.
     Events: in the other queue added and waiting, or duplicated or deduplicated; in this one removed, drained; those of a job
     that was kept for the owner of its deduplication id. ]]
--@queues events meta active
--@args now jobId token ttl flags lifo
--@use transfer lock finish
local jobKey = useQueue(1) .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
checkTransfer()
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', activeKey, -1, jobId) == 0 then return -3 end

local newId, outcome = transferJob(jobId, 'active', now, { ttl = ttl, flags = flags or '', lifo = lifo })
emitDrained()
return { newId, outcome }
