-- Composed from resume.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] paused
-- KEYS[4] wait
-- KEYS[5] prioritized
-- KEYS[6] delayed
-- KEYS[7] marker

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local quiet = ARGV[2]
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
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
call('HDEL', KEYS[2], 'paused')
local hadParked = call('EXISTS', KEYS[3]) == 1
local parked = 0
if hadParked then
  if call('EXISTS', KEYS[4]) == 0 then
    call('RENAME', KEYS[3], KEYS[4])
  else
    local some = call('LRANGE', KEYS[3], 0, 6999)
    call('RPUSH', KEYS[4], unpack(some))
    call('LTRIM', KEYS[3], #some, -1)
    parked = call('LLEN', KEYS[3])
  end
end
local isReady = call('LLEN', KEYS[4]) + call('ZCARD', KEYS[5]) > 0
if isReady then
  signalReady(KEYS[7], false)
else
  signalDelayed(KEYS[7], KEYS[6])
end
if quiet ~= '1' then emit(KEYS[1], 'resumed') end
return parked
