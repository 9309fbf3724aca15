-- Composed from updateData.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local data = ARGV[3]
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
call('HSET', jobKey, 'data', data)
return 0
