-- Composed from pause.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] marker
-- KEYS[4] wait
-- KEYS[5] paused

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function appendList(fromAt, toAt)
  if call('EXISTS', fromAt) == 0 then return end
  if call('EXISTS', toAt) == 0 then
    call('RENAME', fromAt, toAt)
    return
  end
  repeat
    local some = call('LRANGE', fromAt, -7000, -1)
    local nextFirst = {}
    for i = #some, 1, -1 do nextFirst[#nextFirst + 1] = some[i] end
    call('LPUSH', toAt, unpack(nextFirst))
    call('LTRIM', fromAt, 0, -#some - 1)
  until call('EXISTS', fromAt) == 0
end
appendList(KEYS[4], KEYS[5])
call('HSET', KEYS[2], 'paused', 1)
call('DEL', KEYS[3])
emit(KEYS[1], 'paused')
return 0
