--[[ moveJobsToWait: sends jobs of one state back to wait, at most count a call, those first that came there first. Their
     priority is not looked at.

     Arguments: base, state completed, failed or delayed, count, upTo: only jobs whose score is at most this, resetMade '1',
     resetStarted '1': forget the attempts made, the starts, of jobs that had ended.
     Answer: 1 there may be more, 0 that was all.
     Events: waiting for each. ]]
--@args base state count upTo resetMade resetStarted
--@keys paused --@v5
--@keys completed failed delayed wait meta active marker events
--@use gate marker events sweep family sound
local at = base .. state
local isHeld = held(metaKey, activeKey)
local ids = call('ZRANGEBYSCORE', at, 0, upTo, 'LIMIT', 0, count)
if #ids > 0 then
  local fields = { 'finishedOn', 'processedOn', state == 'failed' and 'failedReason' or 'returnvalue' }
  if resetMade == '1' then fields[#fields + 1] = 'atm' end
  if resetStarted == '1' then fields[#fields + 1] = 'ats' end
  for i = 1, #ids do
    if state ~= 'delayed' then
      orNothing(try('HDEL', base .. ids[i], unpack(fields))) -- what is no hash goes when it is taken
      pendAgain(base .. ids[i], state) --@v6
    end
  end
  local limit = cap(metaKey)
  for i = 1, #ids do sayTrimmed(limit, 'waiting', 'jobId', ids[i], 'prev', state) end
  forget(at, ids)
  for from = 1, #ids, 7000 do
    call('LPUSH', lineAt(base), unpack(ids, from, math.min(from + 6999, #ids)))
  end
  wake(markerKey, isHeld)
end
return #ids >= tonumber(count) and 1 or 0
