--[[ Taking the next job to run.

     popReady: the next id, with the job's hash. What stands in the queue and has something else than a hash for its key
            can't be run, and can't be marked as failed: it leaves the queue, and an event says why.
     start: locks a job that already stands in active, counts the start, and answers its hash,
            where a later value of a field holds.
     take:  promotes what is due, then takes from wait, else from prioritized.
            answer: {hash, jobId, 0, 0} a job
                    {false, false, ms, 0} the rate limit holds for ms
                    {false, false, 0, due} nothing ready; the first delayed job is due at that time
                    {false, false, 0, 0} paused, or at the global concurrency
                    nil: nothing at all
     worker: {token, lockMs, name or '', limitMax or nil, limitMs or nil} ]]
--@keys wait active prioritized events limiter delayed meta pc marker
--@use gate events marker limiter promote sound
local function start(base, jobId, hash, now, max, perMs, worker)
  local jobKey = base .. jobId
  local counts = max
  counts = counts and call('HEXISTS', jobKey, 'defa') == 0 --@v6
  if counts and call('INCR', limiterKey) == 1 then
    call('PEXPIRE', limiterKey, math.abs(wholeOf(perMs)))
  end
  if worker.token ~= '0' then
    call('SET', jobKey .. ':lock', worker.token, 'PX', worker.lockMs)
  end
  say(eventsKey, 'active', 'jobId', jobId, 'prev', 'waiting')
  -- What is written is told on to the caller beside what was read.
  local starts = 1
  for i = 1, #hash, 2 do
    if hash[i] == 'ats' then starts = wholeOf(hash[i + 1]) + 1 end
  end
  local news = { 'processedOn', now, 'ats', starts }
  if worker.name ~= '' then
    news[5], news[6] = 'pb', worker.name
  end
  call('HSET', jobKey, unpack(news))
  for i = 1, #news do hash[#hash + 1] = news[i] end
  wake(markerKey, false)
  return { hash, jobId, 0, 0 }
end

-- Ids of the form 0:… in wait are wake-up entries of BullMQ 4, not jobs: they are dropped.
local function popId()
  local id = call('RPOPLPUSH', waitKey, activeKey)
  while id and string.sub(id, 1, 2) == '0:' do
    call('LREM', activeKey, 1, id)
    id = call('RPOPLPUSH', waitKey, activeKey)
  end
  if id then return id end
  local lowest = call('ZPOPMIN', prioritizedKey)
  if lowest[1] then
    call('LPUSH', activeKey, lowest[1])
    return lowest[1]
  end
  call('DEL', pcKey)
end

local function popReady(base)
  local id = popId()
  while id do
    local hash = orNothing(redis.pcall('HGETALL', base .. id))
    if hash then return id, hash end
    call('LREM', activeKey, 1, id)
    say(eventsKey, 'failed', 'jobId', id, 'failedReason', 'the key of the job holds no hash, but a '
      .. call('TYPE', base .. id).ok, 'prev', 'active')
    id = popId()
  end
end

local function take(base, now, worker)
  local set = call('HMGET', metaKey, 'paused', 'concurrency', 'max', 'duration')
  local isHeld = set[1] or isFull(set[2], activeKey)
  promoteDue(base, now, isHeld)

  local max = tonumber(set[3]) or tonumber(worker.limitMax)
  local wait = limitedFor(max)
  if wait > 0 then return { false, false, wait, 0 } end
  if isHeld then return { false, false, 0, 0 } end

  local id, hash = popReady(base)
  if id then return start(base, id, hash, now, max, worker.limitMs or set[4], worker) end
  local due = dueNext(delayedKey)
  if due then return { false, false, 0, wholeOf(due) } end
end
