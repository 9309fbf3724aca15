--[[ The marker wakes idle workers: they block on it with BZPOPMIN.
     wake:    member "0", score 0: a job is ready. Not while the queue is held.
     dueNext: the time in ms of the first delayed job, with the fraction that its order within the ms makes; nil without one.
     wakeAt:  member "1", score dueNext: look again then. ]]
local function wake(markerAt, isHeld)
  if not isHeld then call('ZADD', markerAt, '0', '0') end
end

local function dueNext(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end

local function wakeAt(markerAt, delayedAt)
  local due = dueNext(delayedAt)
  if due then call('ZADD', markerAt, due, '1') end
end
