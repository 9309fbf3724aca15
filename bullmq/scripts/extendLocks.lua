--[[ extendLocks: renews the locks of many jobs in one call.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Answer: ids whose lock is gone or another's. ]]
--@args base lockMs ...
--@keys stalled
--@use sound
local lost = {}
for i = rest, #ARGV, 2 do
  local jobId, token = ARGV[i], ARGV[i + 1]
  local lockKey = base .. jobId .. ':lock'
  if orNothing(try('GET', lockKey)) == token then
    call('SET', lockKey, token, 'PX', lockMs)
    call('SREM', stalledKey, jobId)
  else
    lost[#lost + 1] = jobId
  end
end
return lost
