-- Composed from listenToRegistry.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local now = ARGV[2]
local listener = ARGV[3]
local leaseMs = ARGV[4]
local since = ARGV[5]
local rest = 6
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
local time = registryTime(now)
local announced = call('ZRANGE', base .. 'new', 0, 999)
if announced[1] then call('ZREM', base .. 'new', unpack(announced)) end
for i = rest, #ARGV do announced[#announced + 1] = ARGV[i] end
registerAll(base, time, announced)
local wake = base .. 'wake:' .. listener
local all = since == '' or call('ZSCORE', wake, 'all')
call('DEL', wake)
call('ZADD', base .. 'listeners', time + tonumber(leaseMs), listener)
if all then return { time, 1, call('ZRANGE', base .. 'queues', 0, -1) } end
return { time, 0, call('ZRANGEBYSCORE', base .. 'queues', since, '+inf') }
