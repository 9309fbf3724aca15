-- Composed from extendLock.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local token = ARGV[3]
local lockMs = ARGV[4]
local lockKey = base .. jobId .. ':lock'
if call('GET', lockKey) ~= token then return 0 end
call('SET', lockKey, token, 'PX', lockMs)
call('SREM', KEYS[1], jobId)
return 1
