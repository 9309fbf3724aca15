-- Composed from registerQueues.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local rest = 3
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
local function registerAll(base, now, names)
  local fresh = 0
  for i = 1, #names do fresh = fresh + call('ZADD', base .. 'queues', now, names[i]) end
  if fresh > 0 then wakeListeners(base, now, 'new') end
  return fresh
end
return registerAll(base, registryTime(now), { unpack(ARGV, rest) })
