-- Composed from getCountsPerPriority.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] wait
-- KEYS[4] prioritized

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local rest = 2
local function waitList(queue)
  return queue .. 'wait'
end
local counts = {}
for i = rest, #ARGV do
  local priority = tonumber(ARGV[i])
  if priority == 0 then
    counts[#counts + 1] = call('LLEN', waitList(base))
  else
    counts[#counts + 1] =
      call('ZCOUNT', KEYS[4], priority * 4294967296, (priority + 1) * 4294967296 - 1)
  end
end
return counts
