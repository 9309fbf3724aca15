-- Composed from lastEvents.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local queues = KEYS
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
local all = {}
for n = 1, #queues - 1 do
  local fine, found = orText(pcall(call, 'XREVRANGE', queues[n] .. 'events', '+', '-', 'COUNT', 1))
  if fine then found = { found[1] and found[1][1] or '0-0' } end
  all[n] = found
end
return all
