-- Composed from pause.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] marker

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
call('HSET', KEYS[2], 'paused', 1)
call('DEL', KEYS[3])
emit(KEYS[1], 'paused')
return 0
