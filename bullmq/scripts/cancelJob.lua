--[[ cancelJob: cancels a job that has not finished. The job gets two fields: defa, because of which the next worker that
     fetches the job fails it without running it, and cancelled, which stays. A job that isn't running moves to the front of
     wait. The worker of a running job learns of the cancellation from an entry of the stream <prefix>:<queue>@x:events, or
     else when it next renews the lock.

     Arguments: base, jobId, failure (the text for defa), reason, request (the id of the entry of that stream with which a
     client has requested the cancellation, or ''). Only one call carries out a request. It adds no further entry.
     Returns: 1 the job wasn't running, 2 it runs, 3 it has finished, 0 another call has carried out the request.
     Errors: -1 no such job.
     Events: waiting, unless the job was waiting already. ]]
--@args base jobId failure reason request
--@keys wait paused active prioritized delayed waiting-children completed failed meta marker events
--@use held ready events safeRead
local jobKey, extension = base .. jobId, string.sub(base, 1, -2) .. '@x:'
if request ~= '' then
  call('PEXPIRE', extension .. 'events', 86400000)
  if not call('SET', extension .. 'request:' .. request, jobId, 'NX', 'PX', 3600000) then return 0 end
end
if call('TYPE', jobKey).ok ~= 'hash' then return -1 end
if call('ZSCORE', completedKey, jobId) or call('ZSCORE', failedKey, jobId) then return 3 end

local function mark() call('HSET', jobKey, 'defa', failure, 'cancelled', 1) end

if call('LPOS', activeKey, jobId) then
  mark()
  if request == '' then
    -- A client without permission for the stream can cancel too. The worker then learns of it later.
    try('XADD', extension .. 'events', 'MAXLEN', '~', 1000, '*', 'event', 'cancel', 'jobId', jobId, 'reason', reason,
      'prev', 'active')
    try('PEXPIRE', extension .. 'events', 86400000)
  end
  return 2
end

local function leave()
  if call('LREM', waitKey, -1, jobId) == 1 or call('LREM', pausedKey, -1, jobId) == 1 then return 'waiting' end
  if call('ZREM', prioritizedKey, jobId) == 1 then return 'prioritized' end
  if call('ZREM', delayedKey, jobId) == 1 then return 'delayed' end
  if call('ZREM', waitingChildrenKey, jobId) == 1 then return 'waiting-children' end
end

local prev = leave()
if not prev then return -1 end
mark()
if prev == 'delayed' then call('HSET', jobKey, 'delay', 0) end
makeReady(base, jobId, 0, 'RPUSH', isHeld(metaKey, activeKey))
if prev ~= 'waiting' then emitTrimmed(eventLimit(metaKey), 'waiting', 'jobId', jobId, 'prev', prev) end
return 1
