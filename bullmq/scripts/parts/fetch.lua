--[[ Fetching jobs (BullMQ: moveToActive).

     fetchJobs promotes delayed jobs that are due, then fetches one job for each token, from wait, then from prioritized.
             It moves the job to active, locks it and counts the start.
             worker: {lockMs, name or '', limitMax or nil, limitMs or nil, atOnce: how many jobs may be fetched before their
             size is known, 1 if nil}.
             Returns {jobs, 0, 0, now}: the fetched jobs, in the order of the tokens
                     {{}, ms, 0} the rate limit is in effect for ms
                     {{}, 0, due} no job is ready, and the first delayed one is due at that time (ms)
                     {{}, 0, 0} the queue is paused, or at its global concurrency
                     nil no job is ready and none is delayed.
             It also returns the number of jobs, their length, and whether the queue is dry, that is, no more jobs are ready.
             If tidy is set and the queue is dry, fetchJobs removes the marker of ready jobs, and returns the time of the
             first delayed job also together with jobs.
             Each job has the values from before its start, in a form described in codec.go. fetchJobs writes the short form
             itself, because a function call for each job would be slow. appendFullJob writes the other forms.

     Events: waiting for each promoted job; active. ]]
--@keys wait active prioritized events limiter delayed meta pc marker
--@use held events marker limiter promote codec safeRead
-- popReady moves at most the given number of ids to active. It returns them in the order in which they run. Ids of the form
-- 0:… are markers of BullMQ 4 and are dropped.
local function popReady(most)
  local ids, asked = {}, most
  repeat
    local popped = call('RPOP', waitKey, asked) or {}
    local all = #popped == asked
    if string.find(table.concat(popped, ' '), '0:', 1, true) then
      for i = 1, #popped do
        if string.sub(popped[i], 1, 2) ~= '0:' then ids[#ids + 1] = popped[i] end
      end
    elseif not ids[1] then
      ids = popped
    else
      for i = 1, #popped do ids[#ids + 1] = popped[i] end
    end
    asked = most - #ids
  until asked == 0 or not all
  if #ids < most then
    local lowest = call('ZPOPMIN', prioritizedKey, most - #ids)
    for i = 1, #lowest, 2 do ids[#ids + 1] = lowest[i] end
    if #ids < most then call('DEL', pcKey) end
  end
  if ids[1] then call('LPUSH', activeKey, unpack(ids)) end
  return ids
end

local function fetchJobs(base, now, worker, tokens, tidy)
  local set = call('HMGET', metaKey, 'paused', 'concurrency', 'max', 'duration')
  local most = #tokens
  local allowed = tonumber(set[2])
  if allowed then most = math.min(most, math.ceil(allowed) - call('LLEN', activeKey)) end
  local held = set[1] or most <= 0
  promoteDelayed(base, now, held)

  local max = tonumber(set[3]) or tonumber(worker.limitMax)
  local wait = rateLimitTtl(max)
  if wait > 0 then return { {}, wait, 0 } end
  if held then return { {}, 0, 0 } end

  -- Redis builds the whole reply before it sends it. So many jobs are fetched at a time only once jobs are known to be small.
  local taken, at, count, length, atOnce, dry = {}, 1, 0, 0, not max and worker.atOnce or 1, false
  local perMs, lockMs, owner, stream = worker.limitMs or set[4], worker.lockMs, worker.name, eventsKey
  local lastName, lastOpts, none = nil, nil, {}
  repeat
    local asked = math.min(atOnce, most - count)
    local ids = popReady(asked)
    dry = not ids[asked]
    for i = 1, #ids do
      local jobId = ids[i]
      local jobKey = base .. jobId
      -- The caller knows the fields that are written below, so the hash can be read before they are written.
      local baseFields = try('HLEN', jobKey) == 6
        and call('HMGET', jobKey, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority') or none
      local name, data, opts, timestamp = baseFields[1], baseFields[2], baseFields[3], baseFields[4]
      local following, starts, counts = at + 5, '1', max
      if name and data and opts and timestamp and baseFields[5] == '0' and baseFields[6] == '0' then
        taken[at] = jobId
        taken[at + 1] = name ~= lastName and name
        taken[at + 2] = data
        taken[at + 3] = opts ~= lastOpts and opts
        taken[at + 4] = timestamp
        length = length + #data + #opts
        lastName, lastOpts = name, opts
      else
        local more, counted
        following, more, starts, counted = appendFullJob(jobId, jobKey, baseFields, taken, at)
        length, counts = length + (more or 0), counted and max
      end
      if following then
        at, count = following, count + 1
        if counts and call('INCR', limiterKey) == 1 then
          call('PEXPIRE', limiterKey, math.abs(toInteger(perMs)))
        end
        local token = tokens[count]
        if token ~= '0' then
          call('SET', jobKey .. ':lock', token, 'PX', lockMs)
        end
        call('XADD', stream, '*', 'event', 'active', 'jobId', jobId, 'prev', 'waiting')
        if owner == '' then
          call('HSET', jobKey, 'processedOn', now, 'ats', starts)
        else
          call('HSET', jobKey, 'processedOn', now, 'ats', starts, 'pb', owner)
        end
      end
    end
    if dry or length > 1000000 then break end
    if not max and length < 10000 * count then atOnce = 50 end
  until count >= most or rateLimitTtl(max) > 0
  if tidy and dry then
    call('ZREM', markerKey, '0')
  elseif count > 0 then
    signalReady(markerKey, false)
    return { taken, 0, 0, now }, count, length, dry
  end
  local due = nextDue(delayedKey)
  if due or count > 0 then return { taken, 0, toInteger(due) }, count, length, dry end
  return nil, 0, 0, dry
end
