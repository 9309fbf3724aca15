-- Composed from unregisterQueues.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local before = ARGV[3]
local rest = 4
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
local function wakeListeners(base, now, member)
  call('ZREMRANGEBYSCORE', base .. 'listeners', '-inf', '(' .. now)
  local listeners = call('ZRANGE', base .. 'listeners', 0, -1)
  for i = 1, #listeners do
    local wake = base .. 'wake:' .. listeners[i]
    call('ZADD', wake, 0, member)
    call('PEXPIRE', wake, 60000)
  end
end
local removed = {}
for i = rest, #ARGV do
  local name, stays = ARGV[i], false
  if before ~= '' then
    local score = call('ZSCORE', base .. 'queues', name)
    stays = score and tonumber(score) >= tonumber(before)
  else
    call('ZREM', base .. 'new', name)
  end
  if not stays and call('ZREM', base .. 'queues', name) == 1 then removed[#removed + 1] = name end
end
if removed[1] then wakeListeners(base, registryTime(now), 'all') end
return removed
