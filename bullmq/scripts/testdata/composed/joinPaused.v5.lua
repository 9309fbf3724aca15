-- Composed from joinPaused.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] paused
-- KEYS[5] marker
-- KEYS[6] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local function appendList(fromAt, toAt)
  if call('EXISTS', fromAt) == 0 then return end
  if call('EXISTS', toAt) == 0 then
    call('RENAME', fromAt, toAt)
    return
  end
  repeat
    local some = call('LRANGE', fromAt, -7000, -1)
    local nextFirst = {}
    for i = #some, 1, -1 do nextFirst[#nextFirst + 1] = some[i] end
    call('LPUSH', toAt, unpack(nextFirst))
    call('LTRIM', fromAt, 0, -#some - 1)
  until call('EXISTS', fromAt) == 0
end
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
local function isHeld(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  return set[1] or isMaxed(set[2], activeAt)
end
local function signalReady(markerAt, held)
  if not held then call('ZADD', markerAt, '0', '0') end
end
local isPaused = call('HEXISTS', KEYS[2], 'paused') == 1
local moved = 0
if not isPaused then
  moved = call('LLEN', KEYS[4])
  if moved > 0 then
    appendList(KEYS[3], KEYS[4])
    call('RENAME', KEYS[4], KEYS[3])
  end
  if call('EXISTS', KEYS[3]) == 1 then signalReady(KEYS[5], isHeld(KEYS[2], KEYS[6])) end
end
if isPaused then moved = call('LLEN', KEYS[3]) end
if isPaused then appendList(KEYS[3], KEYS[4]) end
return moved
