--[[ moveToFinished: ends running jobs, each as completed or as failed for good, and takes next ones when asked.

     Arguments: base, now (ms), points: how many minutes of metrics are kept or '', fetch: for each job '1' if a
     next one is to be taken under its token once it has ended, else '0', lockMs, name, limitMax, limitMs as for moveToActive; then of
     each job its id, token, value, and the number of further arguments of it, '' for none. These are keepCount, keepAge (s),
     keepLimit: what stays of the completed or failed jobs, each '' when not set; and of a failed job attempts (how many it
     had), then field, value … to set in the hash before (stacktrace). The value is JSON, the reason of a failure plain text.
     Answer: {refused, jobs, ms, due}: refused is {number, error, number, error …}, the jobs that were not ended, with the
     server's own words where it is none of the errors below; the others are what moveToActive answers, left out when there is nothing to tell.
     Errors: -1 no such job, -2 its lock is gone, -3 it isn't active (its lock is given back then), -4 children are pending,
     -6 the lock is another's, -9 a child failed; -4 and -9 of completed jobs only. Each concerns one job; the others end.
     Events: of each job completed, or failed and, when no attempt is left, retries-exhausted; of its parent waiting or
     delayed; then those of moveToActive, or drained. ]]
--@args base now points fetch lockMs name limitMax limitMs ...
--@use finish together take worker
local jobs, tokens, at = {}, {}, rest
while ARGV[at] do
  local more = tonumber(ARGV[at + 3]) or 0
  local job = { id = ARGV[at], token = ARGV[at + 1], value = ARGV[at + 2], outcome = 'completed', number = #jobs + 1, from = 1, to = 0,
    keepCount = '', keepAge = '', keepLimit = '' }
  at = at + 4
  if more > 0 then
    job.keepCount, job.keepAge, job.keepLimit = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    if more > 3 then
      job.outcome, job.attempts, job.from, job.to = 'failed', ARGV[at + 3], at + 4, at + more - 1
    end
    at = at + more
  end
  jobs[job.number] = job
end

local refused, others = {}, finishTogether(base, now, jobs, points)
for i = 1, #others do
  local done, code = pcall(finish, base, now, others[i], points)
  if not done or code < 0 then
    if type(code) == 'table' then code = code.err end -- from Redis 7 on
    refused[#refused + 1], refused[#refused + 2] = others[i].number, code
    others[i].refused = true
  end
end
if #refused == 2 * #jobs then return { refused } end
for i = 1, #jobs do
  if string.sub(fetch, i, i) == '1' and not jobs[i].refused then tokens[#tokens + 1] = jobs[i].token end
end
local taken = tokens[1] and take(base, now, workerOf(lockMs, name, limitMax, limitMs), tokens)
if taken then return { refused, unpack(taken) } end
sayDrained()
return { refused }
