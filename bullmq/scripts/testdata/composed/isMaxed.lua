-- Composed from isMaxed.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local function isMaxed(concurrency, activeAt)
  local allowed = tonumber(concurrency)
  return allowed and call('LLEN', activeAt) >= allowed
end
return isMaxed(call('HGET', KEYS[2], 'concurrency'), KEYS[3]) and 1 or 0
