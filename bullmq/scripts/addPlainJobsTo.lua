--[[ addPlainJobsTo: adds plain jobs to several queues. It does to each queue what addPlainJobs does.

     Arguments: for each queue kinds and the values of its jobs, as for addPlainJobs. For more than one job, and for a job
     that is not '0' or '4', the number of the values precedes them. '4' for a single job means the name, opts and timestamp
     of the last single job, of any queue.
     Returns: for each queue the number of its first job, or a text if its values can't be processed. Some of its jobs may
     have been added then.
     Events: those of addPlainJobs for each queue. ]]
--@queues id meta events marker
--@args ...
--@use addPlain perQueue

-- addOne is addPlain for one job that waits, without tables, and with as few calls of functions as possible. Adds to many
-- queues are mostly of this kind.
local function addOne(base, name, data, opts, timestamp)
  local number, stream, metaAt = call('INCR', base .. 'id'), base .. 'events', base .. 'meta'
  local jobId = number < 1e14 and string.format('%d', number) or number .. '' -- the first form costs less
  local set = call('HMGET', metaAt, 'opts.maxLenEvents', 'paused', 'concurrency')
  local limit, held = set[1], set[2] or set[3] and isMaxed(set[3], base .. 'active')
  if limit ~= '10000' then limit = eventLimitOf(metaAt, limit) end
  call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp, 'delay', '0', 'priority', '0')
  call('XADD', stream, '*', 'event', 'added', 'jobId', jobId, 'name', name)
  call('XADD', stream, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', jobId)
  call('LPUSH', waitList(base), jobId)
  if not held then call('ZADD', base .. 'marker', '0', '0') end
  return number
end

local numbers, args, at, written = {}, ARGV, rest, false
local name, opts, timestamp
for n = 1, #queues - 1 do
  local kinds, data = args[at], args[at + 1]
  local fine, first
  if kinds == '0' then
    name, opts, timestamp = args[at + 2], args[at + 3], args[at + 4]
    fine, first = pcall(addOne, queues[n], name, data, opts, timestamp)
    at = at + 5
  elseif kinds == '4' then
    fine, first = pcall(addOne, queues[n], name, data, opts, timestamp)
    at = at + 2
  else
    fine, first = pcall(addPlain, useQueue(n), kinds, at + 2)
    at = at + 2 + data -- the number of the values
  end
  if written and not fine then
    first = errorText(first) -- raising it would hide that the jobs of other queues were added
  elseif not written then
    fine, first = orText(fine, first)
  end
  written, numbers[n] = true, first
end
return numbers
