--[[ moveToCompleted: ends a running job well and, when asked, takes the next one under the same token.

     Arguments: base, jobId, now (ms), token, value (JSON), keepCount, keepAge (s), keepLimit: what stays of the completed
     jobs, each '' when not set; points: how many minutes of metrics are kept or ''; fetch '1' to take the next
     job, then lockMs, name, limitMax, limitMs as for moveToActive.
     Answer: 0, or what moveToActive answers where fetch found something to tell.
     Errors: -1 no such job, -2 its lock is gone, -3 it isn't active (its lock is given back then), -4 children are pending,
     -6 the lock is another's, -9 a child failed.
     Events: completed, then those of moveToActive or drained; of its parent waiting or delayed. ]]
--@args base jobId now token value keepCount keepAge keepLimit points fetch lockMs name limitMax limitMs
--@keys completed metrics:completed
--@use finish take worker
local job = {
  id = jobId, token = token, outcome = 'completed', field = 'returnvalue', value = value,
  keepCount = keepCount, keepAge = keepAge, keepLimit = keepLimit, points = points,
}
local refused = finish(base, now, job, completedKey, metricsCompletedKey, #ARGV + 1)
if refused < 0 then return refused end
local nextJob = fetch == '1' and take(base, now, workerOf(token, lockMs, name, limitMax, limitMs))
if nextJob then return nextJob end
sayDrained()
return 0
