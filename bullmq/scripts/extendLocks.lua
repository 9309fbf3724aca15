--[[ extendLocks: renews the locks of many jobs.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Returns: the ids of jobs whose lock has expired or has another token. ]]
--@args base lockMs ...
--@keys stalled
--@use safeRead
local lost = {}
for i = rest, #ARGV, 2 do
  local jobId, token = ARGV[i], ARGV[i + 1]
  local lockKey = base .. jobId .. ':lock'
  if unlessWrongType(try('GET', lockKey)) == token then
    call('SET', lockKey, token, 'PX', lockMs)
    call('SREM', stalledKey, jobId)
  else
    lost[#lost + 1] = jobId
  end
end
return lost
