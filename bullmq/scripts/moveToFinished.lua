--[[ moveToFinished: finishes active jobs as completed or failed, and optionally fetches the next ones.

     Arguments: base, now (ms), points (for how many minutes metrics are kept, or ''), kinds (a digit for each job, see
     codec.go), value (the common value of all jobs, or ''); lockMs, name, limitMax and limitMs as for moveToActive.
     Then follow the ids of all jobs; the tokens of all jobs; without a common value the values of all jobs (JSON, or the
     reason of a failure as plain text); and for each job of a kind with more arguments the number of these arguments and
     the arguments: keepCount, keepAge (s) and keepLimit, the retention of completed or failed jobs, each '' if not set;
     for a failed job also attempts (the maximum), then field, value … to set (stacktrace).
     Returns: {refused, jobs, ms, due, us}. refused has two values for each job that did not finish: its number and its
     error, which is one of the errors below, or the text of an error of the server. The rest is the reply of moveToActive.
     It is omitted if there is no such reply.
     Errors: -1 no such job, -2 it has no lock, -3 it isn't active (its lock is released then), -4 children are pending,
     -6 the lock has another token, -9 a child failed; -4 and -9 for completed jobs only. An error concerns one job; the
     other jobs finish.
     Events: for each job completed, or failed and, if no attempt is left, retries-exhausted; for its parent waiting or
     delayed; then those of moveToActive, or drained. ]]
--@args base now points kinds value lockMs name limitMax limitMs ...
--@use codec finishMany fetch worker
local many = #kinds
local ids, tokens, values, shared, bytes, keeps = finishedJobs(kinds, value, rest)
local refused, gone = finishMany(base, now, points, name, ids, tokens, values, shared, bytes, keeps)
if #refused == 2 * many then return { refused } end
local under = tokens
if refused[1] or string.find(kinds, '[0246]') then
  under = {}
  for i = 1, many do
    if string.byte(kinds, i) % 2 == 1 and not gone[i] then under[#under + 1] = tokens[i] end
  end
end
local taken = under[1] and fetchJobs(base, now, workerOptions(lockMs, name, limitMax, limitMs), under)
if taken then return { refused, unpack(taken) } end
emitDrained()
return { refused }
