--[[ addPlainJobs: adds jobs that may run at once and have nothing that needs care: no id of their own, no parent, no
     scheduler, no deduplication. Most jobs are such; addStandardJob does the same for one of the others.

     Arguments: base, lifo: a digit for each job, '1' for one that goes to the front; then of each its name, data (JSON), opts
     (JSON as stored) and timestamp (ms).
     Answer: the number of the first; the others follow in order.
     Events: added, waiting of each. ]]
--@args base lifo ...
--@keys id meta active events wait marker
--@use gate events marker
local count = #lifo
local before = call('INCRBY', idKey, count) - count
local limit, isHeld = capAndHeld(metaKey, activeKey)
local last, first, at = {}, {}, rest
for i = 1, count do
  local jobId = before + i .. ''
  call('HSET', base .. jobId, 'name', ARGV[at], 'data', ARGV[at + 1], 'opts', ARGV[at + 2], 'timestamp', ARGV[at + 3],
    'delay', '0', 'priority', '0')
  call('XADD', eventsKey, '*', 'event', 'added', 'jobId', jobId, 'name', ARGV[at])
  if i < count then
    call('XADD', eventsKey, '*', 'event', 'waiting', 'jobId', jobId)
  else
    sayTrimmed(limit, 'waiting', 'jobId', jobId)
  end
  at = at + 4
  local line = string.byte(lifo, i) == 49 and first or last
  line[#line + 1] = jobId
end
if last[1] then call('LPUSH', waitKey, unpack(last)) end
if first[1] then call('RPUSH', waitKey, unpack(first)) end
wake(markerKey, isHeld)
return before + 1
