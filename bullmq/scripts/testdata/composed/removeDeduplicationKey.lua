-- Composed from removeDeduplicationKey.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local dedupId = ARGV[2]
local jobId = ARGV[3]
local at = base .. 'de:' .. dedupId
if call('GET', at) ~= jobId then return 0 end
return call('DEL', at)
