--[[ addPlainJobs: adds jobs that have nothing that needs care: no id of their own, no parent, no scheduler, no
     deduplication. Most jobs are such; the other adds do the same for one job that isn't.

     Arguments: base, kinds: a digit for each job, '0' last in line, '1' next to run (lifo), '2' with a delay or a priority; then of each
     its name, data (JSON), opts (JSON as stored) and timestamp (ms), and of kind '2' its delay (ms) and priority.
     Answer: the number of the first; the others follow in order.
     Events: added, then waiting or delayed, of each. ]]
--@args base kinds ...
--@keys id meta active events wait marker prioritized pc delayed
--@use gate events marker ready delay
local count = #kinds
local before = call('INCRBY', idKey, count) - count
local limit, isHeld = capAndHeld(metaKey, activeKey)
local last, first, at, awake, later = {}, {}, rest, false, false
for i = 1, count do
  local jobId, kind = before + i .. '', string.byte(kinds, i) - 48
  local delay, priority = '0', '0'
  if kind == 2 then delay, priority = ARGV[at + 4], ARGV[at + 5] end
  call('HSET', base .. jobId, 'name', ARGV[at], 'data', ARGV[at + 1], 'opts', ARGV[at + 2], 'timestamp', ARGV[at + 3],
    'delay', delay, 'priority', priority)
  call('XADD', eventsKey, '*', 'event', 'added', 'jobId', jobId, 'name', ARGV[at])
  local event, due = 'waiting'
  if delay ~= '0' then
    local score
    event, later = 'delayed', true
    score, due = slot(ARGV[at + 3], tonumber(delay))
    call('ZADD', delayedKey, score, jobId)
  elseif kind == 2 then
    awake = true
    call('ZADD', prioritizedKey, rank(pcKey, tonumber(priority)), jobId)
  else
    awake = true
    local line = kind == 1 and first or last
    line[#line + 1] = jobId
  end
  -- The last event trims the stream, which leaves what trimming at each would leave.
  if due and i == count then
    sayTrimmed(limit, event, 'jobId', jobId, 'delay', due)
  elseif due then
    say(eventsKey, event, 'jobId', jobId, 'delay', due)
  elseif i == count then
    sayTrimmed(limit, event, 'jobId', jobId)
  else
    call('XADD', eventsKey, '*', 'event', event, 'jobId', jobId)
  end
  at = at + 4 + (kind == 2 and 2 or 0)
end
if last[1] then call('LPUSH', lineAt(base), unpack(last)) end
if first[1] then call('RPUSH', lineAt(base), unpack(first)) end
if awake then wake(markerKey, isHeld) end
if later then wakeAt(markerKey, delayedKey) end
return before + 1
