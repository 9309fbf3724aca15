-- Composed from moveToWaitingChildren.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled
-- KEYS[2] events
-- KEYS[3] meta
-- KEYS[4] active
-- KEYS[5] waiting-children

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local now = ARGV[3]
local token = ARGV[4]
local childKey = ARGV[5]
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', KEYS[1], jobId)
  return 0
end
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
if call('ZCARD', jobKey .. ':unsuccessful') > 0 then return -9 end
local pending
if given(childKey) then
  pending = call('SISMEMBER', jobKey .. ':dependencies', childKey)
else
  pending = call('SCARD', jobKey .. ':dependencies')
end
if pending == 0 then return 1 end
local refused = releaseLock(jobKey, jobId, token)
if refused < 0 then return refused end
if call('LREM', KEYS[4], -1, jobId) == 0 then return -3 end
call('ZADD', KEYS[5], now, jobId)
emit(KEYS[2], 'waiting-children', 'jobId', jobId, 'prev', 'active')
return 0
