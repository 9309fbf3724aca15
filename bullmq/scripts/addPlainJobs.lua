--[[ addPlainJobs: adds several jobs as addPlainJob adds one, in order.

     Arguments: base, then of each job name, data (JSON), opts (JSON as stored), timestamp and delay (ms), priority,
     lifo '1' or ''.
     Answer: the jobs' ids.
     Events: added, waiting of each. ]]
--@args base ...
--@keys id meta active events wait marker
--@use gate events marker
local perJob = 7
local count = (#ARGV - rest + 1) / perJob
local number = call('INCRBY', idKey, count) - count
local limit, isHeld = capAndHeld(metaKey, activeKey)
local ids, last, first = {}, {}, {}
for i = 1, count do
  local at = rest + (i - 1) * perJob
  local jobId = number + i .. ''
  ids[i] = jobId
  call('HSET', base .. jobId, 'name', ARGV[at], 'data', ARGV[at + 1], 'opts', ARGV[at + 2], 'timestamp', ARGV[at + 3],
    'delay', ARGV[at + 4], 'priority', ARGV[at + 5])
  say(eventsKey, 'added', 'jobId', jobId, 'name', ARGV[at])
  sayTrimmed(limit, 'waiting', 'jobId', jobId)
  local line = ARGV[at + 6] == '1' and first or last
  line[#line + 1] = jobId
end
if last[1] then call('LPUSH', waitKey, unpack(last)) end
if first[1] then call('RPUSH', waitKey, unpack(first)) end
wake(markerKey, isHeld)
return ids
