--[[ Taking the next jobs to run.

     start: locks a job that already stands in active, counts the start, puts its id and its hash as it was before that into
            taken, from at on, and answers where the next one goes, and about how long this one is. In taken a job is the number
            of texts of its hash, its id, field, value …; or, of a job that is bare, as most are at their first start, -1, id and the
            values alone of the six fields that every job has; or, where its delay and its priority are '0', too, nothing but
            id, name, data, opts, timestamp, with false for a name or opts that are those of the last such job: each text of
            an answer costs the server as much as a small command. What has something else than a hash for its key can't be
            run, and can't be marked as failed: it leaves the queue, an event says why, and there is no answer.
     take:  promotes what is due, then takes one job for each token, from wait, else from prioritized.
            answer: {{job …, job …}, 0, 0, now} jobs, as start puts them, under the tokens in their order, in one list: a
                    list within it would take the server a buffer of its own
                    {{}, ms, 0} the rate limit holds for ms
                    {{}, 0, due} nothing ready; the first delayed job is due at that time
                    {{}, 0, 0} paused, or at the global concurrency
                    nil: nothing at all
     worker: {lockMs, name or '', limitMax or nil, limitMs or nil} ]]
--@keys wait active prioritized events limiter delayed meta pc marker
--@use gate events marker limiter promote sound
local lastName, lastOpts
local function start(base, jobId, now, max, perMs, lockMs, owner, token, taken, at)
  local jobKey = base .. jobId
  -- Read first and written once: the caller knows what is written.
  local starts, length, counts, bare = '1', 0, max, false
  if try('HLEN', jobKey) == 6 then
    local set = call('HMGET', jobKey, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority')
    local name, data, opts, timestamp, delay, priority = set[1], set[2], set[3], set[4], set[5], set[6]
    bare = name and data and opts and timestamp and delay and priority
    if bare then
      length = #data + #opts
      if delay == '0' and priority == '0' then
        taken[at], taken[at + 1], taken[at + 2] = jobId, name ~= lastName and name, data
        taken[at + 3], taken[at + 4] = opts ~= lastOpts and opts, timestamp
        at, lastName, lastOpts = at + 5, name, opts
      else
        taken[at], taken[at + 1], taken[at + 2], taken[at + 3] = -1, jobId, name, data
        taken[at + 4], taken[at + 5], taken[at + 6], taken[at + 7] = opts, timestamp, delay, priority
        at = at + 8
      end
    end
  end
  if not bare then
    local hash = orNothing(try('HGETALL', jobKey))
    if not hash then
      call('LREM', activeKey, 1, jobId)
      say(eventsKey, 'failed', 'jobId', jobId, 'failedReason', 'the key of the job holds no hash, but a '
        .. call('TYPE', jobKey).ok, 'prev', 'active')
      return
    end
    taken[at], taken[at + 1] = #hash, jobId
    for i = 1, #hash do taken[at + 1 + i] = hash[i] end
    at = at + 2 + #hash
    for i = 1, #hash, 2 do
      local field, value = hash[i], hash[i + 1]
      length = length + #value
      if field == 'ats' then starts = wholeOf(value) + 1 end
      if field == 'defa' then counts = nil end --@v6
    end
  end
  if counts and call('INCR', limiterKey) == 1 then
    call('PEXPIRE', limiterKey, math.abs(wholeOf(perMs)))
  end
  if token ~= '0' then
    call('SET', jobKey .. ':lock', token, 'PX', lockMs)
  end
  call('XADD', eventsKey, '*', 'event', 'active', 'jobId', jobId, 'prev', 'waiting')
  if owner == '' then
    call('HSET', jobKey, 'processedOn', now, 'ats', starts)
  else
    call('HSET', jobKey, 'processedOn', now, 'ats', starts, 'pb', owner)
  end
  return at, length
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
  local perMs, lockMs, owner = worker.limitMs or set[4], worker.lockMs, worker.name
  repeat
    local ids = popReady(math.min(atOnce, most - count))
    for i = 1, #ids do
      local following, more = start(base, ids[i], now, max, perMs, lockMs, owner, tokens[count + 1], taken, at)
      if following then
        at, count, length = following, count + 1, length + more
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
