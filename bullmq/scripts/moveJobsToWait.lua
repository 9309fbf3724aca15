--[[ moveJobsToWait: moves jobs of one state back to wait, at most count per call, in their order. Their priority is ignored.

     Arguments: base, state (completed, failed or delayed), count, upTo (only jobs whose score is at most this), resetMade
     and resetStarted ('1' to reset the attempts made, the starts, of finished jobs).
     Returns: 1 if there may be more, else 0.
     Events: waiting for each. ]]
--@args base state count upTo resetMade resetStarted
--@keys paused --@v5
--@keys completed failed delayed wait meta active marker events
--@use held marker events empty repend safeRead
local at = base .. state
local held = isHeld(metaKey, activeKey)
local ids = call('ZRANGEBYSCORE', at, 0, upTo, 'LIMIT', 0, count)
if #ids > 0 then
  local fields = { 'finishedOn', 'processedOn', state == 'failed' and 'failedReason' or 'returnvalue' }
  if resetMade == '1' then fields[#fields + 1] = 'atm' end
  if resetStarted == '1' then fields[#fields + 1] = 'ats' end
  for i = 1, #ids do
    if state ~= 'delayed' then
      unlessWrongType(try('HDEL', base .. ids[i], unpack(fields))) -- the next fetch drops a key that is not a hash
      repend(base .. ids[i], state) --@v6
    end
  end
  local limit = eventLimit(metaKey)
  for i = 1, #ids do emitTrimmed(limit, 'waiting', 'jobId', ids[i], 'prev', state) end
  removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('LPUSH', waitList(base), unpack(ids, from, math.min(from + 6999, #ids)))
  end
  signalReady(markerKey, held)
end
return #ids >= tonumber(count) and 1 or 0
