--[[ addParentJob: adds a job that waits for its children. They are added next, in the same transaction.

     Arguments: base (the prefix of the queue, bull:orders:), id (the custom id, or ''), name, data (JSON), opts
     (JSON as stored), timestamp and delay (ms), priority, lifo ('1' or ''), parentKey, parent (JSON {id, queueKey,
     fpof…}), scheduler (its id), dedupId, dedupTtl (ms), dedupFlags (of e extend, r replace, k keepLastIfActive,
     s reschedule), defer ('1' within a flow). The arguments from lifo on may be omitted at the end.
     Returns: the id of the added job; {id, 'exists'} if a job with the custom id exists; {id, 'deduplicated'} if the job
     with the returned id owns the deduplication id. In the last two cases nothing is added.
     Errors: -5 the parent does not exist, -7 the job exists and has another parent.
     Events: added, waiting-children; duplicated if the id exists; with a deduplication id also deduplicated, removed, delayed. ]]
--@args base id name data opts timestamp delay priority lifo parentKey parent scheduler dedupId dedupTtl dedupFlags defer
--@keys waiting-children
--@use admit store events
local job = jobOfArguments(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
local mode = deduplicationOf(base, dedupId, dedupTtl, dedupFlags)
local jobId, jobKey, limit = admit(base, id, timestamp, job, mode, given(defer), false)
if not jobId then return jobKey end

storeJob(jobKey, jobId, job)
call('ZADD', waitingChildrenKey, timestamp, jobId)
emitTrimmed(limit, 'waiting-children', 'jobId', jobId)
attachToParent(jobKey, job)
return jobId
