-- Composed from registerWorker.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local lease = ARGV[1]
local record = ARGV[2]
local function serverTime()
  local t = try('TIME')
  if t.err then return 0 end
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local now = math.floor(serverTime() / 1000)
if now == 0 then return { err = 'NOPERM the user may not call TIME, by which leases end' } end
local ends = string.format('%.0f', now + lease)
call('SET', KEYS[1], record, 'PX', lease)
for i = 2, #KEYS do
  if call('ZADD', KEYS[i], ends, KEYS[1]) == 1 then
    call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. string.format('%.0f', now))
  end
  if call('PTTL', KEYS[i]) < tonumber(lease) then call('PEXPIRE', KEYS[i], lease) end
end
return ends
