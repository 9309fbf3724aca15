-- Composed from isFinished.lua and its parts. Regenerate with make composed.
-- KEYS[1] completed
-- KEYS[2] failed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return { -1 } end
if call('ZSCORE', KEYS[1], jobId) then return { 1, call('HGET', jobKey, 'returnvalue') } end
if call('ZSCORE', KEYS[2], jobId) then return { 2, call('HGET', jobKey, 'failedReason') } end
return { 0 }
