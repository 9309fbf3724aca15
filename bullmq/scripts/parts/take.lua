--[[ Taking the next jobs to run.

     take:  promotes what is due, then takes one job for each token, from wait, else from prioritized: puts it into active,
            locks it and counts the start.
            answer: {{job …, job …}, 0, 0, now} jobs, with their hashes as they were before that, under the tokens in their
                    order, in one list: a list within it would take the server a buffer of its own
                    {{}, ms, 0} the rate limit holds for ms
                    {{}, 0, due} nothing ready; the first delayed job is due at that time
                    {{}, 0, 0} paused, or at the global concurrency
                    nil: nothing at all
     worker: {lockMs, name or '', limitMax or nil, limitMs or nil}
     In the answer a job that is bare, as most are at their first start, with the six fields that every job has and no other,
     is id, name, data, opts, timestamp, where its delay and its priority are '0'; with false for a name or opts that are
     those of the last such job: each text of an answer costs the server as much as a small command.
     tellOther: any other job: -1, id and the six values; or the number of texts of its hash, id, field, value …; puts it
            into taken, from at on, and answers where the next one goes, about how long this one is, what its field ats
            becomes, and whether it counts for the rate limit. What has something else than a hash for its key can't be run, and can't be
            marked as failed: it leaves the queue, an event says why, and there is no answer. ]]
--@keys wait active prioritized events limiter delayed meta pc marker
--@use gate events marker limiter promote sound
local function tellOther(jobId, jobKey, six, taken, at)
  if six[1] and six[2] and six[3] and six[4] and six[5] and six[6] then
    taken[at], taken[at + 1] = -1, jobId
    for i = 1, 6 do taken[at + 1 + i] = six[i] end
    return at + 8, #six[2] + #six[3], '1', true
  end
  local hash = orNothing(try('HGETALL', jobKey))
  if not hash then
    call('LREM', activeKey, 1, jobId)
    say(eventsKey, 'failed', 'jobId', jobId, 'failedReason', 'the key of the job holds no hash, but a '
      .. call('TYPE', jobKey).ok, 'prev', 'active')
    return
  end
  local length, starts, counts = 0, '1', true
  taken[at], taken[at + 1] = #hash, jobId
  for i = 1, #hash do taken[at + 1 + i] = hash[i] end
  for i = 1, #hash, 2 do
    local field, value = hash[i], hash[i + 1]
    length = length + #value
    if field == 'ats' then starts = wholeOf(value) + 1 end
    if field == 'defa' then counts = false end --@v6
  end
  return at + 2 + #hash, length, starts, counts
end

-- At most so many ids, next first, put into active. Ids of the form 0:… in wait are wake-up entries of BullMQ 4, not jobs:
-- they are dropped.
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

local function take(base, now, worker, tokens)
  local set = call('HMGET', metaKey, 'paused', 'concurrency', 'max', 'duration')
  local most = #tokens
  local allowed = tonumber(set[2])
  if allowed then most = math.min(most, math.ceil(allowed) - call('LLEN', activeKey)) end
  local isHeld = set[1] or most <= 0
  promoteDue(base, now, isHeld)

  local max = tonumber(set[3]) or tonumber(worker.limitMax)
  local wait = limitedFor(max)
  if wait > 0 then return { {}, wait, 0 } end
  if isHeld then return { {}, 0, 0 } end

  -- Many at a time, once they are known to be small, for the answer has to be put together before it is sent.
  local taken, at, count, length, atOnce = {}, 1, 0, 0, 1
  local perMs, lockMs, owner, stream = worker.limitMs or set[4], worker.lockMs, worker.name, eventsKey
  local lastName, lastOpts, none = nil, nil, {}
  repeat
    local ids = popReady(math.min(atOnce, most - count))
    for i = 1, #ids do
      local jobId = ids[i]
      local jobKey = base .. jobId
      -- Read first and written once: the caller knows what is written.
      local six = try('HLEN', jobKey) == 6
        and call('HMGET', jobKey, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority') or none
      local name, data, opts, timestamp = six[1], six[2], six[3], six[4]
      local following, starts, counts = at + 5, '1', max
      if name and data and opts and timestamp and six[5] == '0' and six[6] == '0' then
        taken[at] = jobId
        taken[at + 1] = name ~= lastName and name
        taken[at + 2] = data
        taken[at + 3] = opts ~= lastOpts and opts
        taken[at + 4] = timestamp
        length = length + #data + #opts
        lastName, lastOpts = name, opts
      else
        local more, counted
        following, more, starts, counted = tellOther(jobId, jobKey, six, taken, at)
        length, counts = length + (more or 0), counted and max
      end
      if following then
        at, count = following, count + 1
        if counts and call('INCR', limiterKey) == 1 then
          call('PEXPIRE', limiterKey, math.abs(wholeOf(perMs)))
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
    if not ids[atOnce] or length > 1000000 then break end
    if not max and length < 10000 * count then atOnce = 50 end
  until count >= most or limitedFor(max) > 0
  if count > 0 then
    wake(markerKey, false)
    return { taken, 0, 0, now }
  end
  local due = dueNext(delayedKey)
  if due then return { {}, 0, wholeOf(due) } end
end
