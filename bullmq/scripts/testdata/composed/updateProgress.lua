-- Composed from updateProgress.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local progress = ARGV[3]
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end
local function eventLimit(metaAt)
  return eventLimitOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end
local function emitTrimmed(limit, event, ...)
  call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'event', event, ...)
end
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
call('HSET', jobKey, 'progress', progress)
emitTrimmed(eventLimit(KEYS[2]), 'progress', 'jobId', jobId, 'data', progress)
return 0
