--[[ strandedJobs: of some ids, those whose job was to run and stands in no state of the queue: BullMQ 5 renames wait and
     paused over each other at pause and resume, and what stood in the one that goes is lost from both.

     Arguments: base, putBack '1' to make them ready, each in front of the one before it in the arguments, then ids.
     Answer: id, timestamp, id, timestamp …
     Events: waiting for each that is put back. ]]
--@args base putBack ...
--@keys meta active events
--@use stands gate ready events sound
local isHeld = held(metaKey, activeKey)
local found = {}
for i = rest, #ARGV do
  local jobId = ARGV[i]
  local jobKey = base .. jobId
  if not stands(base, jobId) and call('EXISTS', jobKey .. ':lock') == 0 then
    local job = call('HMGET', jobKey, 'name', 'data', 'timestamp', 'priority', 'finishedOn')
    if job[1] and job[2] and job[3] and not job[5] then
      found[#found + 1] = jobId
      found[#found + 1] = job[3]
      if putBack == '1' then
        ready(base, jobId, numberOf(job[4]), 'RPUSH', isHeld)
        sayTrimmed(cap(metaKey), 'waiting', 'jobId', jobId)
      end
    end
  end
end
return found
