-- Composed from getRateLimitTtl.lua and its parts. Regenerate with make composed.
-- KEYS[1] limiter
-- KEYS[2] meta

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local max = ARGV[2]
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', KEYS[1])) then return 0 end
  local left = call('PTTL', KEYS[1])
  if left == 0 then call('DEL', KEYS[1]) end
  return left > 0 and left or 0
end
max = tonumber(max)
if max == 0 then max = tonumber(call('HGET', KEYS[2], 'max')) end
if max then return rateLimitTtl(max) end
return call('PTTL', KEYS[1])
