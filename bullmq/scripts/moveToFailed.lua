--[[ moveToFailed: ends a running job for good, as failed, and, when asked, takes the next one under the same token.

     Arguments: as moveToCompleted, with reason (plain text) for the value, then attempts (how many the job had), then
     field, value … to set in the hash before (stacktrace).
     Answer and errors: as moveToCompleted; -4 and -9 don't occur.
     Events: failed, retries-exhausted when no attempt is left; of its parent waiting or delayed; then as moveToCompleted. ]]
--@args base jobId now token reason keepCount keepAge keepLimit points fetch lockMs name limitMax limitMs attempts ...
--@keys failed metrics:failed
--@use finish take worker
local job = {
  id = jobId, token = token, outcome = 'failed', field = 'failedReason', value = reason, attempts = attempts,
  keepCount = keepCount, keepAge = keepAge, keepLimit = keepLimit, points = points,
}
local refused = finish(base, now, job, failedKey, metricsFailedKey, rest)
if refused < 0 then return refused end
local nextJob = fetch == '1' and take(base, now, workerOf(token, lockMs, name, limitMax, limitMs))
if nextJob then return nextJob end
sayDrained()
return 0
