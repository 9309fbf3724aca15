--[[ Ending many jobs in one go.

     leaveActive:    takes jobs out of active; answers which ones stood there, by id.
     finishTogether: ends those that have completed and need nothing but an end: held by their token, with no parent, no
                     child that is pending or failed, and no deduplication id. Each ends as finish would end it; what can
                     be done for all is one call. Answers the other jobs, for finish to look at one by one. ]]
--@keys active stalled events completed metrics:completed
--@use text events drop retention metrics
local function leaveActive(ids)
  local wanted, left = {}, {}
  for i = 1, #ids do wanted[ids[i]] = true end
  if #ids > 1 then
    -- Most of them are the ones that have been there longest.
    local popped, stay = call('RPOP', activeKey, #ids) or {}, {}
    for i = 1, #popped do
      local id = popped[i]
      if wanted[id] then
        wanted[id], left[id] = nil, true
      else
        stay[#popped - i + 1] = id
      end
    end
    local back = {}
    for i = 1, #popped do back[#back + 1] = stay[i] end
    if back[1] then call('RPUSH', activeKey, unpack(back)) end
  end
  for id in pairs(wanted) do
    if call('LREM', activeKey, -1, id) == 1 then left[id] = true end
  end
  return left
end

-- Of jobs with one retention.
local function endAlike(base, now, jobs, points)
  local ended, keep = {}, jobs[1]
  for i = 1, #jobs do
    local job = jobs[i]
    if tonumber(job.keepCount) == 0 then
      dropJob(job.key)
    else
      call('HSET', job.key, 'atm', job.made, 'returnvalue', job.value, 'finishedOn', now)
      ended[#ended + 1], ended[#ended + 2] = now, job.id
    end
  end
  if ended[1] then call('ZADD', completedKey, unpack(ended)) end
  if given(keep.keepAge) and keep.keepCount ~= '0' then
    for _ = 1, #jobs do dropOlder(base, completedKey, now, tonumber(keep.keepAge), tonumber(keep.keepLimit) or 1000) end
  end
  local count = tonumber(keep.keepCount)
  if count and count > 0 then dropBeyond(base, completedKey, count) end
  for i = 1, #jobs do
    if i == #jobs then trim() end -- before the last event, as a single end does
    say(eventsKey, 'completed', 'jobId', jobs[i].id, 'returnvalue', jobs[i].value, 'prev', 'active')
  end
  if given(points) then measure(metricsCompletedKey, points, now, #jobs) end
end

local function finishTogether(base, now, jobs, points)
  local locks, kin = {}, {}
  for i = 1, #jobs do
    local jobKey = base .. jobs[i].id
    jobs[i].key, locks[i] = jobKey, jobKey .. ':lock'
    kin[2 * i - 1], kin[2 * i] = jobKey .. ':dependencies', jobKey .. ':unsuccessful'
  end
  if call('EXISTS', unpack(kin)) > 0 then return jobs end
  local owners, ids = call('MGET', unpack(locks)), {}
  for i = 1, #jobs do
    local job = jobs[i]
    if job.outcome == 'completed' and owners[i] == job.token then
      local set = redis.pcall('HMGET', job.key, 'ats', 'atm', 'parentKey', 'parent', 'deid')
      if set[1] and not (set[3] or set[4] or set[5]) then
        job.made = (tonumber(set[2]) or 0) + 1
        ids[#ids + 1] = job.id
      end
    end
  end
  if not ids[1] then return jobs end

  local left, others, freed, kinds, alike = leaveActive(ids), {}, {}, { '' }, { [''] = {} }
  ids = {}
  for i = 1, #jobs do
    local job = jobs[i]
    if job.made and left[job.id] then
      freed[#freed + 1], ids[#ids + 1] = locks[i], job.id
      local kind = job.keepCount == '0' and '' or job.keepCount .. job.keepAge
      if kind ~= '' then kind = job.keepCount .. ' ' .. job.keepAge .. ' ' .. job.keepLimit end
      if not alike[kind] then
        kinds[#kinds + 1], alike[kind] = kind, {}
      end
      table.insert(alike[kind], job)
    else
      others[#others + 1] = job
    end
  end
  if not ids[1] then return others end
  call('DEL', unpack(freed))
  call('SREM', stalledKey, unpack(ids))
  -- Those that leave the others alone end first: so what stays is what would stay if they had ended one after the other.
  for i = 1, #kinds do
    if alike[kinds[i]][1] then endAlike(base, now, alike[kinds[i]], points) end
  end
  return others
end
