--[[ summarizeQueues: counts the jobs of several queues, and reads their settings and metrics. It writes nothing.

     Arguments: minutes (of the metrics).
     Returns: for each queue a list, or a text if its values can't be processed:
       1 the numbers of jobs: wait, paused, active, delayed, prioritized, completed, failed, waiting-children
       2 what oldestOf returns: wait, paused, active, delayed, prioritized
       3 the fields of meta: paused, concurrency, max, duration, version
       4 for how long the rate limit is in effect (ms; negative if there is none)
       5 the counter of ids
       6 the metrics of completed jobs, 7 those of failed ones: {count, prevTS, points}, newest first
       8 the number of job schedulers, 9 that of paused ones; 0 if the client may not read it ]]
--@queues
--@args minutes
--@use oldest perQueue pausedSchedulers
local lists, sets = { 'wait', 'paused', 'active' }, { 'delayed', 'prioritized', 'completed', 'failed', 'waiting-children' }
local aged = { 'wait', 'paused', 'active', 'delayed', 'prioritized' }

local function metrics(at)
  local head = call('HMGET', at, 'count', 'prevTS')
  return { head[1] or '', head[2] or '', head[1] and call('LRANGE', at .. ':data', 0, minutes - 1) or {} }
end

local function summarize(base)
  local counts, oldest = {}, {}
  for i = 1, #lists do counts[i] = call('LLEN', base .. lists[i]) end
  -- BullMQ 4 has put a marker at the end of wait.
  if counts[1] > 0 and string.sub(call('LINDEX', base .. 'wait', -1), 1, 2) == '0:' then counts[1] = counts[1] - 1 end
  for i = 1, #sets do counts[#lists + i] = call('ZCARD', base .. sets[i]) end
  for i = 1, #aged do oldest[i] = counts[i] > 0 and oldestOf(base, aged[i]) or {} end
  local meta = call('HMGET', base .. 'meta', 'paused', 'concurrency', 'max', 'duration', 'version')
  for i = 1, 5 do meta[i] = meta[i] or '' end
  local held = try('HLEN', pausedSchedulers(base))
  return {
    counts, oldest, meta, call('PTTL', base .. 'limiter'), call('GET', base .. 'id') or '',
    metrics(base .. 'metrics:completed'), metrics(base .. 'metrics:failed'), call('ZCARD', base .. 'repeat'),
    type(held) == 'number' and held or 0,
  }
end

local all = {}
for n = 1, #queues - 1 do
  local _, summary = orText(pcall(summarize, queues[n]))
  all[n] = summary
end
return all
