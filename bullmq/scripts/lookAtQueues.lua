--[[ lookAtQueues: finds those of several queues that need attention. It creates no key, and writes only if it claims.

     Arguments: quick ('1' to look at the markers only), claim ('1' to remove the marker with the time of a delayed job), failed
     ('1' to report queues with failed jobs too), vanished ('1' to report queues without meta too).
     Returns: for each queue to report three values: queue, bits, due. queue is its number. due is when its first delayed job is
     due (ms), or 0. bits is the sum of: 1 a job may be ready, and the queue isn't paused; 2 jobs are active; 4 the stream has
     entries that tell workers of cancellations; 8 jobs have failed; 16 the queue has no meta.
     A queue whose values can't be processed counts as ready, so that a fetch returns the error. A stream that the user of the
     caller may not access counts as empty. ]]
--@queues
--@args quick claim failed vanished
--@use marker safeRead perQueue
local function lookAtMarker(base)
  local bits, due = 0, nil
  local marks = call('ZRANGE', base .. 'marker', 0, -1, 'WITHSCORES')
  for i = 2, #marks, 2 do
    local score = toInteger(marks[i])
    if score > 0 then due = score else bits = 1 end
  end
  return bits, due
end

local function lookAt(base)
  local wait, prioritized, delayed = base .. 'wait', base .. 'prioritized', base .. 'delayed'
  local active, told = base .. 'active', string.sub(base, 1, -2) .. '@x:events'
  local bits, due = 0, nil
  -- Most queues have none of these keys.
  if call('EXISTS', wait, prioritized, delayed, active) > 0 then
    if call('EXISTS', wait, prioritized) > 0 and not call('HGET', base .. 'meta', 'paused') then bits = 1 end
    if call('EXISTS', active) > 0 then bits = bits + 2 end
    due = nextDue(delayed)
  end
  if try('EXISTS', told) == 1 then bits = bits + 4 end
  if failed == '1' and call('EXISTS', base .. 'failed') > 0 then bits = bits + 8 end
  if vanished == '1' and call('EXISTS', base .. 'meta') == 0 then bits = bits + 16 end
  return bits, due
end

local look, seen, to = quick == '1' and lookAtMarker or lookAt, {}, 0
for n = 1, #queues - 1 do
  local fine, bits, due = orText(pcall(look, queues[n]))
  if not fine then bits = 1 end
  if bits > 0 or due then
    if due and claim == '1' then try('ZREM', queues[n] .. 'marker', '1') end
    seen[to + 1], seen[to + 2], seen[to + 3] = n, bits, toInteger(due)
    to = to + 3
  end
end
return seen
