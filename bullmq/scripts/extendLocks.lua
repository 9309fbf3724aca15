--[[ extendLocks: renews the locks of many jobs.

     Arguments: base, lockMs, then jobId, token, jobId, token …
     Returns: {lost, cancelled}. lost: the ids of jobs whose lock has expired or has another token. cancelled: jobId, defa, jobId,
     defa … of jobs that were cancelled while they run. A job that has defa before it starts is not run. ]]
--@args base lockMs ...
--@keys stalled
--@use safeRead
local lost, cancelled = {}, {}
for i = rest, #ARGV, 2 do
  local jobId, token = ARGV[i], ARGV[i + 1]
  local lockKey = base .. jobId .. ':lock'
  if unlessWrongType(try('GET', lockKey)) == token then
    call('SET', lockKey, token, 'PX', lockMs)
    call('SREM', stalledKey, jobId)
    local failure = unlessWrongType(try('HGET', base .. jobId, 'defa'))
    if failure then
      cancelled[#cancelled + 1] = jobId
      cancelled[#cancelled + 1] = failure
    end
  else
    lost[#lost + 1] = jobId
  end
end
return { lost, cancelled }
