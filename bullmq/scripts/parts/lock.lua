--[[ The lock of a job is the string <job>:lock with the token of its owner. It expires unless it is renewed.

     releaseLock deletes the lock. It returns 0, or -2 if there is no lock, or -6 if the lock has another token. Token "0" skips
             the check. Only callers that move a job outside of a worker send this token. ]]
--@keys stalled
--@use safeRead
local function releaseLock(jobKey, jobId, token)
  if token == '0' then return 0 end
  local lockKey = jobKey .. ':lock'
  local owner = unlessWrongType(try('GET', lockKey))
  if not owner then return -2 end
  if owner ~= token then return -6 end
  call('DEL', lockKey)
  call('SREM', stalledKey, jobId)
  return 0
end
