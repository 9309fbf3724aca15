--[[ renewLocks renews the locks of the jobs in ARGV[from], token, jobId, token … up to ARGV[to].
     Returns two lists. lost has the ids of jobs whose lock has expired or has another token. cancelled has two values for each
     job that was cancelled while it ran: jobId and defa. A failed child also writes defa to its parent, but the parent
     continues to run. ]]
--@keys stalled
--@use safeRead cancelled
local function renewLocks(base, lockMs, from, to)
  local lost, cancelled = {}, {}
  for i = from, to, 2 do
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
  return lost, cancelled
end
