--[[ The marker signals idle workers, which block on it with BZPOPMIN.

     signalReady sets member "0" with score 0: a job is ready. Nothing happens while the queue is held.
     signalDelayed sets member "1" with the time at which the first delayed job is due.
     nextDue returns that time in ms, with the order within the ms as its fraction, or nil if no job is delayed. ]]
local function signalReady(markerAt, held)
  if not held then call('ZADD', markerAt, '0', '0') end
end

local function nextDue(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end

local function signalDelayed(markerAt, delayedAt)
  local due = nextDue(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
end
