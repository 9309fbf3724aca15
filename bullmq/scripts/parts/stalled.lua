--[[ requeueStalled moves jobs whose worker has died back to wait. Each check marks every active job (in the set stalled), and
     each renewal of a lock removes the mark. A job that is still marked at the next check, and has no lock, is stalled. All
     workers together make at most one check within checkMs.
     Returns the ids of the stalled jobs. A job that stalled more often than maxStalled gets defa and fails at its next
     start, unless it belongs to a scheduler that exists.

     Events: waiting and stalled for each. ]]
--@keys stalled active stalled-check meta events repeat
--@use events held ready safeRead
local function isScheduled(jobKey)
  local scheduler = unlessWrongType(try('HGET', jobKey, 'rjk'))
  return scheduler
    and (call('EXISTS', repeatKey .. ':' .. scheduler) == 1 or call('ZSCORE', repeatKey, scheduler))
end

local function requeueStalled(base, now, maxStalled, checkMs)
  if call('EXISTS', stalledCheckKey) == 1 then return {} end
  call('SET', stalledCheckKey, now, 'PX', checkMs)
  trimEvents()

  local moved = {}
  local marked = call('SMEMBERS', stalledKey)
  if #marked > 0 then call('DEL', stalledKey) end
  for i = 1, #marked do
    local jobId = marked[i]
    local jobKey = base .. jobId
    if string.sub(jobId, 1, 2) == '0:' then
      call('LREM', activeKey, 1, jobId)
    elseif call('EXISTS', jobKey .. ':lock') == 0 and call('LREM', activeKey, 1, jobId) == 1 then
      -- A key that is not a hash goes to wait too; the next fetch drops it.
      local stalled = toInteger(unlessWrongType(try('HGET', jobKey, 'stc'))) + 1
      unlessWrongType(try('HSET', jobKey, 'stc', stalled))
      if stalled > tonumber(maxStalled) and not isScheduled(jobKey) then
        unlessWrongType(try('HSET', jobKey, 'defa', 'job stalled more than allowable limit'))
      end
      makeReady(base, jobId, 0, 'RPUSH', isHeld(metaKey, activeKey))
      emit(eventsKey, 'waiting', 'jobId', jobId, 'prev', 'active')
      emit(eventsKey, 'stalled', 'jobId', jobId)
      moved[#moved + 1] = jobId
    end
  end

  local running = call('LRANGE', activeKey, 0, -1)
  for from = 1, #running, 7000 do
    call('SADD', stalledKey, unpack(running, from, math.min(from + 6999, #running)))
  end
  return moved
end
