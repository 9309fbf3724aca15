-- Composed from removeJobScheduler.lua and its parts. Regenerate with make composed.
-- KEYS[1] events
-- KEYS[2] meta
-- KEYS[3] repeat
-- KEYS[4] delayed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local scheduler = ARGV[2]
local function deleteJob(jobKey)
  return call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies', jobKey .. ':processed',
    jobKey .. ':failed', jobKey .. ':unsuccessful')
end
local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end
local function pausedSchedulers(base)
  return string.sub(base, 1, -2) .. '@x:paused-schedulers'
end
local function forgetPaused(base, scheduler)
  return try('HDEL', pausedSchedulers(base), scheduler) == 1
end
local due = call('ZSCORE', KEYS[3], scheduler)
local wasPaused = forgetPaused(base, scheduler)
if not due then return wasPaused and 0 or 1 end
local jobId = 'repeat:' .. scheduler .. ':' .. due
if call('ZREM', KEYS[4], jobId) == 1 then
  deleteJob(base .. jobId)
  emit(KEYS[1], 'removed', 'jobId', jobId, 'prev', 'delayed')
end
call('ZREM', KEYS[3], scheduler)
call('DEL', KEYS[3] .. ':' .. scheduler)
return 0
