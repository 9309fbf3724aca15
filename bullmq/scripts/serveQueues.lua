--[[ serveQueues: finishes active jobs of several queues, then fetches jobs of several queues. It does to each queue what
     moveToFinished and moveToActive do, except that the marker of a queue without ready jobs is removed. As in moveToFinished,
     drained is not emitted if the call also fetches from the queue, unless that fetch finds neither a ready nor a delayed job.

     Arguments: now (ms), points, lockMs and name as for moveToFinished, tokens (the number of tokens), endings (the number of
     queues that end jobs). Then follow the tokens; for each queue that ends jobs its number, then kinds, value and the values
     of the jobs as for moveToFinished; and for each queue to fetch from its number, the maximum number of jobs to fetch, and
     the limiter of the worker (max:ms, or ''). A fetch uses the tokens that the fetches before it have left.
     Returns: {ended, taken, waiting}. ended has, for each queue that ends jobs, refused as in the reply of moveToFinished. taken has,
     for each queue that was fetched from, {jobs, ms, due, dry}. jobs, ms and due are as in the reply of moveToActive. dry is
     1 if no more jobs are ready; due is then returned together with jobs, too.
     For a queue whose values can't be processed, ended or taken has a text instead. All tokens of such a fetch count as used.
     Fetching ends when no token is left, or when the jobs so far are large. waiting has the indexes in ended of the queues
     from which no job was fetched and that have jobs in wait or prioritized.
     Errors: those of moveToFinished, -1 -2 -3 -4 -6 -9 in ended, each for one job.
     Events: those of moveToFinished for each queue, then those of moveToActive for each, then drained. ]]
--@queues events meta active wait
--@args now points lockMs name tokens endings ...
--@use codec finishMany fetch perQueue
-- jobsWait emits drained as emitDrained does, and reports whether jobs are in wait or prioritized. It is defined before the first
-- pcall: in the in-process Redis a function that is defined after an error would use the keys of the queue at that time.
local function jobsWait()
  if call('LLEN', waitKey) > 0 or call('ZCARD', prioritizedKey) > 0 then return true end
  if call('LLEN', activeKey) == 0 then emit(eventsKey, 'drained') end
  return false
end

local at = rest + tokens
local ended, ending = {}, {}
for i = 1, tonumber(endings) do
  local queue, kinds = ARGV[at] + 0, ARGV[at + 1]
  local base = useQueue(queue)
  local ids, owners, values, shared, bytes, keeps, following = finishedJobs(kinds, ARGV[at + 2], at + 3)
  local fine, refused = orText(pcall(finishMany, base, now, points, name, ids, owners, values, shared, bytes, keeps))
  if fine and #refused < 2 * #kinds then ending[#ending + 1] = { i, queue } end
  ended[i], at = refused, following
end

local worker = { lockMs = lockMs, name = name }
local taken, fetched, length = {}, {}, 0
local token, last = rest, rest + tokens - 1
while at < #ARGV and token <= last and length < 1000000 do
  local queue = ARGV[at] + 0
  local base, till = useQueue(queue), math.min(token + ARGV[at + 1] - 1, last)
  local limit = ARGV[at + 2]
  if limit == '' then
    worker.limitMax, worker.limitMs = nil, nil
  else
    worker.limitMax, worker.limitMs = string.match(limit, '^(%d+):(%d+)$')
  end
  local fine, jobs, count, more, dry = orText(pcall(fetchJobs, base, now, worker, { unpack(ARGV, token, till) }, true))
  fetched[queue] = jobs
  if fine then
    jobs = jobs or { {}, 0, 0 }
    jobs[4] = dry and 1 or 0
    token, length = token + (count or 0), length + (more or 0)
    worker.atOnce = length < 10000 * (token - rest) and 10 or 1
  else
    token = till + 1
  end
  taken[#taken + 1] = jobs
  at = at + 3
end

local waiting = {}
for i = 1, #ending do
  local index, queue = ending[i][1], ending[i][2]
  if not fetched[queue] then
    useQueue(queue)
    local fine, some = orText(pcall(jobsWait))
    if not fine then
      ended[index] = some
    elseif some then
      waiting[#waiting + 1] = index
    end
  end
end
return { ended, taken, waiting }
