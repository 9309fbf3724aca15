-- Composed from getMetrics.lua and its parts. Regenerate with make composed.
-- KEYS[1] metrics:completed
-- KEYS[2] metrics:failed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local kind = ARGV[2]
local from = ARGV[3]
local to = ARGV[4]
local at = base .. 'metrics:' .. kind
return {
  call('HMGET', at, 'count', 'prevTS', 'prevCount'),
  call('LRANGE', at .. ':data', from, to),
  call('LLEN', at .. ':data'),
}
