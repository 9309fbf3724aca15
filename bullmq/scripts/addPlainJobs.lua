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
local args, stream, kindOf = ARGV, eventsKey, { string.byte(kinds, 1, count) }
-- Ten numbers share their first digits: Lua spells each as if it had a fraction, which was 4 % of all that a job costs.
local digits, tens = { '1', '2', '3', '4', '5', '6', '7', '8', '9', [0] = '0' }, nil
for i = 1, count do
  local number, kind = before + i, kindOf[i] - 48
  local digit, jobId = number % 10
  if not tens or digit == 0 then tens = number < 10 and '' or (number - digit) / 10 .. '' end
  if number < 1e14 then jobId = tens .. digits[digit] else jobId = number .. '' end
  local name, timestamp, delay, priority = args[at], args[at + 3], '0', '0'
  if kind == 2 then delay, priority = args[at + 4], args[at + 5] end
  call('HSET', base .. jobId, 'name', name, 'data', args[at + 1], 'opts', args[at + 2], 'timestamp', timestamp,
    'delay', delay, 'priority', priority)
  call('XADD', stream, '*', 'event', 'added', 'jobId', jobId, 'name', name)
  local event, due = 'waiting'
  if delay ~= '0' then
    local score
    event, later = 'delayed', true
    score, due = slot(timestamp, tonumber(delay))
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
    call('XADD', stream, '*', 'event', event, 'jobId', jobId)
  end
  at = at + 4 + (kind == 2 and 2 or 0)
end
if last[1] then call('LPUSH', lineAt(base), unpack(last)) end
if first[1] then call('RPUSH', lineAt(base), unpack(first)) end
if awake then wake(markerKey, isHeld) end
if later then wakeAt(markerKey, delayedKey) end
return before + 1
