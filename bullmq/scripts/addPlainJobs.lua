--[[ addPlainJobs: adds jobs that have nothing that needs care: no id of their own, no parent, no scheduler, no
     deduplication. Most jobs are such; the other adds do the same for one job that isn't.

     Arguments: base, kinds: a digit for each job, '0' last in line, '1' next to run (lifo), '2' with a delay or a priority, plus 4
     where it has the name, opts and timestamp of the one before; then of each its data (JSON); unless they are those, name,
     opts (JSON as stored) and timestamp (ms); and of kind '2' its delay (ms) and priority.
     Answer: the number of the first; the others follow in order.
     Events: added, then waiting or delayed, of each. ]]
--@args base kinds ...
--@keys id meta active events wait marker prioritized pc delayed
--@use gate events marker ready delay
local count = #kinds
local before = call('INCRBY', idKey, count) - count
local limit, isHeld = capAndHeld(metaKey, activeKey)
local last, lasts, first, at, awake, later = {}, 0, {}, rest, false, false
local args, stream, kindOf = ARGV, eventsKey, { string.byte(kinds, 1, count) }
local name, opts, timestamp
-- Ten numbers share their first digits: Lua spells each as if it had a fraction, which was 4 % of all that a job costs.
local digits, tens = { '1', '2', '3', '4', '5', '6', '7', '8', '9', [0] = '0' }, nil
for i = 1, count do
  local number, kind = before + i, kindOf[i] - 48
  local digit, jobId = number % 10
  if not tens or digit == 0 then tens = number < 10 and '' or (number - digit) / 10 .. '' end
  if number < 1e14 then jobId = tens .. digits[digit] else jobId = number .. '' end
  local data, delay, priority = args[at], '0', '0'
  at = at + 1
  if kind < 4 then
    name, opts, timestamp = args[at], args[at + 1], args[at + 2]
    at = at + 3
  else
    kind = kind - 4
  end
  if kind == 2 then
    delay, priority = args[at], args[at + 1]
    at = at + 2
  end
  call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp,
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
    if kind == 1 then
      first[#first + 1] = jobId
    else
      lasts = lasts + 1
      last[lasts] = jobId
    end
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
end
if last[1] then call('LPUSH', lineAt(base), unpack(last)) end
if first[1] then call('RPUSH', lineAt(base), unpack(first)) end
if awake then wake(markerKey, isHeld) end
if later then wakeAt(markerKey, delayedKey) end
return before + 1
