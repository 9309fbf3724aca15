--[[ The lock of a job: a string <job>:lock with its owner's token, which expires when it isn't renewed.
     unlock: gives it back. 0 done, -2 there is no lock, -6 it belongs to another token.
     Token "0" skips the check: only a caller that moves a job by hand, from outside any worker, uses it. ]]
--@keys stalled
--@use sound
local function unlock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = orNothing(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', stalledKey, jobId)
  return 0
end
