--[[ addDelayedJob: adds a job that may run once its delay is over.

     Arguments: base the queue's prefix (bull:orders:), id the custom id or '', name, data (JSON), opts (JSON as
     stored), timestamp and delay (ms), priority, lifo '1' or '', parentKey, parent (JSON {id, queueKey, fpof…}),
     scheduler (its id), dedupId, dedupTtl (ms), dedupFlags (of e extend, r replace, k keepLastIfActive, s reschedule),
     defer '1' within a flow. From lifo on they may be left out at the end.
     Answer: the id of the added job; {id, 'exists'} when a job with this id exists already; {id, 'deduplicated'} when
     that job owns the deduplication id. Nothing is added then.
     Errors: -5 the parent isn't there, -7 the job exists and has another parent.
     Events: added, delayed; for an id that exists duplicated; with deduplication deduplicated, removed, delayed. ]]
--@args base id name data opts timestamp delay priority lifo parentKey parent scheduler dedupId dedupTtl dedupFlags defer
--@keys delayed marker
--@use intake store delay
local job = jobOf(name, data, opts, timestamp, delay, priority, lifo, parentKey, parent, scheduler, dedupId)
local mode = dedupMode(base, dedupId, dedupTtl, dedupFlags)
local jobId, jobKey, limit = intake(base, id, timestamp, job, mode, given(defer), true)
if not jobId then return jobKey end

store(jobKey, jobId, job)
delayJob(jobId, timestamp, tonumber(delay), limit)
adopt(jobKey, job)
return jobId
