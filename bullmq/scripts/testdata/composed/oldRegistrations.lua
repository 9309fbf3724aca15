-- Composed from oldRegistrations.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local intervalMs = ARGV[3]
local ageMs = ARGV[4]
local function serverTime()
  local t = try('TIME')
  if t.err then return 0 end
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function registryTime(now)
  local us = serverTime()
  if us == 0 then return tonumber(now) end
  return math.floor(us / 1000)
end
if not call('SET', base .. 'checked', '1', 'NX', 'PX', intervalMs) then return {} end
local before = registryTime(now) - tonumber(ageMs)
local old = call('ZRANGEBYSCORE', base .. 'queues', '-inf', '(' .. before)
table.insert(old, 1, before)
return old
