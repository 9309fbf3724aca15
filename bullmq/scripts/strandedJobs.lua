--[[ strandedJobs: finds stranded jobs among some ids: jobs that should run but are in no state of the queue. BullMQ 5 leaves
     such jobs: pause renames wait to paused, and resume renames paused to wait. If the other list exists, it is overwritten,
     and its jobs are then in neither list.

     Arguments: base, requeue ('1' to make them ready, each before the preceding argument), then ids.
     Returns: id, timestamp, id, timestamp …
     Events: waiting for each requeued job. ]]
--@args base requeue ...
--@keys meta active events
--@use isInAnyState held ready events safeRead
local held = isHeld(metaKey, activeKey)
local found = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  local jobKey = base .. jobId
  if not isInAnyState(base, jobId) and call('EXISTS', jobKey .. ':lock') == 0 then
    local job = call('HMGET', jobKey, 'name', 'data', 'timestamp', 'priority', 'finishedOn')
    if job[1] and job[2] and job[3] and not job[5] then
      found[#found + 1] = jobId
      found[#found + 1] = job[3]
      if requeue == '1' then
        makeReady(base, jobId, toNumber(job[4]), 'RPUSH', held)
        listed[jobId] = true
        emitTrimmed(eventLimit(metaKey), 'waiting', 'jobId', jobId)
      end
    end
  end
end
return found
