--[[ cancelJob: cancels a job that has not finished. It gets defa, with which the next worker that fetches it fails it without
     running it, and the mark cancelled, which stays. A job that isn't running moves to the front of wait. If it runs, an entry
     of the stream <prefix>:<queue>@x:events tells its worker, and otherwise the next renewal of its lock does.

     Arguments: base, jobId, failure (the text for defa), reason, request: the id of the entry of that stream by which a client
     has asked for this, or ''. One call carries out a request; it needs no entry of its own.
     Returns: 1 the job wasn't running, 2 it runs, 3 it has finished, 0 another call has carried out the request.
     Errors: -1 no such job.
     Events: waiting, unless it was waiting. ]]
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
    -- A client that may not use the stream cancels all the same; the worker learns of it later.
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
