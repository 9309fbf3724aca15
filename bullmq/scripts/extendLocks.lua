--[[ extendLocks: renews the locks of many jobs.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Returns: {lost, cancelled}. lost: the ids of jobs whose lock has expired or has another token. cancelled: jobId, defa, jobId,
     defa … of jobs that were cancelled while they run. A failed child also writes defa, but its parent runs on. ]]
--@args base lockMs ...
--@keys stalled
--@use safeRead cancelled
local lost, cancelled = {}, {}
for i = rest, #ARGV, 2 do
  local jobId, token = ARGV[i], ARGV[i + 1]
  local lockKey = base .. jobId .. ':lock'
  if unlessWrongType(try('GET', lockKey)) == token then
    call('SET', lockKey, token, 'PX', lockMs)
    call('SREM', stalledKey, jobId)
    local failure = unlessWrongType(try('HGET', base .. jobId, 'defa'))
    if failure and isCancelText(failure) then
      cancelled[#cancelled + 1] = jobId
      cancelled[#cancelled + 1] = failure
    end
  else
    lost[#lost + 1] = jobId
  end
end
return { lost, cancelled }
