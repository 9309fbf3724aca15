--[[ Finishing many jobs with shared commands.

     finishBatch finishes the completed jobs that need nothing else: they are locked by their token, and have no
             parent, no pending or failed child, and no deduplication id. The result equals that of finishJob.
             Returns left: left[n] is true for the other jobs, which finishJob must handle.
             values has the value of each job. If all jobs have the same value, value has it instead. keeps is nil, or has by
             number {keepCount, keepAge, keepLimit, failed} of each job with a retention or a failure. kinds has a byte for
             each job: at least '4' if the job had only the base fields and has not failed. If no field was added to such a
             job since it was fetched, its hash has size fields.
     removeFromActive removes jobs from active. Returns nil if all jobs were there. Otherwise it returns found: found[id] is
             true for the jobs that were there.
     finishAlike does the rest for jobs with the same retention, after their locks and their ids in active were removed.
     finishByRetention does the same for jobs with different retentions.
     attemptIfPlain is for a job that ran before or has additional fields. It returns the number of attempts made, or nil if
             finishJob must handle the job.
     made has, by the index of a job, the number of attempts made, if it isn't 1. In most calls all jobs are of the same kind,
     so the code for these avoids every unnecessary step. Tables are created as copies of ids and then overwritten, because
     Lua copies a growing table each time it doubles.

     Events: completed for each. ]]
--@keys active stalled events completed metrics:completed
--@use text events delete retention metrics safeRead
local function removeFromActive(ids)
  local found, others, count = {}, {}, 0
  for i = 1, #ids do found[ids[i]] = false end
  -- Most of the jobs are the oldest jobs in active.
  local popped = ids[2] and call('RPOP', activeKey, #ids) or {}
  for i = 1, #popped do
    local id = popped[i]
    if found[id] == false then
      found[id], count = true, count + 1
    else
      others[#others + 1] = id
    end
  end
  if others[1] then
    local back = {}
    for i = #others, 1, -1 do back[#back + 1] = others[i] end
    call('RPUSH', activeKey, unpack(back))
  end
  if count == #ids then return end
  for id, is in pairs(found) do
    if not is then found[id] = call('LREM', activeKey, '-1', id) > 0 end
  end
  return found
end

local function attemptIfPlain(jobKey)
  if call('EXISTS', jobKey .. ':unsuccessful') > 0 then return end
  local set = try('HMGET', jobKey, 'ats', 'atm', 'parentKey', 'parent', 'deid', 'defa')
  if set[1] and not (set[3] or set[4] or set[5] or set[6]) then return toInteger(set[2]) + 1 end
end

local function finishAlike(base, now, ids, keys, values, value, made, keeps, points)
  local ended, to, stream = {}, 0, eventsKey
  for i = 1, #ids do
    if keeps and keeps[i] and keeps[i][1] == '0' then
      deleteJob(keys[i])
    else
      call('HSET', keys[i], 'atm', made[i] or '1', 'returnvalue', value or values[i], 'finishedOn', now)
      ended[to + 1] = now
      to = to + 2
      ended[to] = ids[i]
    end
  end
  if to > 0 then
    call('ZADD', completedKey, unpack(ended))
    local keep = keeps and keeps[1]
    if keep and keep[1] ~= '0' then
      if given(keep[2]) then
        for _ = 1, #ids do evictOlder(base, completedKey, now, tonumber(keep[2]), tonumber(keep[3]) or 1000) end
      end
      local count = tonumber(keep[1])
      if count and count > 0 then evictBeyond(base, completedKey, count) end
    end
  end
  for i = 1, #ids do
    if i == #ids then trimEvents() end -- before the last event, as finishJob does
    call('XADD', stream, '*', 'event', 'completed', 'jobId', ids[i], 'returnvalue', value or values[i], 'prev', 'active')
  end
  if given(points) then collectMetrics(metricsCompletedKey, points, now, #ids) end
end

-- omit returns the first elements of a list, except for some of them.
local function omit(list, first, some)
  local rest, n = {}, 0
  for i = 1, first do
    if not some[i] then
      n = n + 1
      rest[n] = list[i]
    end
  end
  return rest
end

local function finishByRetention(base, now, ids, keys, values, value, made, keeps, points)
  -- Jobs that evict no other jobs finish first. So the same jobs are kept as if all jobs finished one by one.
  local kinds, others = { '' }, { [''] = {} }
  for i = 1, #ids do
    local keep, kind = keeps[i], ''
    if keep and keep[1] ~= '0' then kind = table.concat(keep, ' ', 1, 3) end
    if not others[kind] then
      kinds[#kinds + 1], others[kind] = kind, {}
      for n = 1, i - 1 do others[kind][n] = true end
    end
    for k, rest in pairs(others) do rest[i] = k ~= kind end
  end
  for _, kind in ipairs(kinds) do
    local of = function(list) return list and omit(list, #ids, others[kind]) end
    local some = of(ids)
    if some[1] then finishAlike(base, now, some, of(keys), of(values), value, of(made), of(keeps), points) end
  end
end

local function finishBatch(base, now, ids, tokens, values, value, keeps, kinds, size, points)
  local count, left, anyLeft = #ids, {}, false
  local keys, locks, pending = { unpack(ids) }, { unpack(ids) }, { unpack(ids) }
  for i = 1, count do
    local jobKey = base .. ids[i]
    keys[i], locks[i], pending[i] = jobKey, jobKey .. ':lock', jobKey .. ':dependencies'
  end
  if call('EXISTS', unpack(pending)) > 0 then
    for i = 1, count do left[i] = true end
    return left
  end
  local owners, made = call('MGET', unpack(locks)), {}
  for i = 1, count do
    local owned = owners[i] == tokens[i]
    -- A failed child would have written defa. So if the hash has the usual size, no child has failed.
    if not owned or kinds[i] < 52 or try('HLEN', keys[i]) ~= size then
      if owned and not (keeps and keeps[i] and keeps[i][4]) then made[i] = attemptIfPlain(keys[i]) end
      if not made[i] then left[i], anyLeft = true, true end
    end
  end
  local ending = anyLeft and omit(ids, count, left) or ids
  local found = ending[1] and removeFromActive(ending)
  if found then
    for i = 1, count do
      if not left[i] and not found[ids[i]] then left[i], anyLeft = true, true end
    end
  end
  if anyLeft then
    local those = function(list) return list and omit(list, count, left) end
    ids, keys, locks, made, values, keeps = those(ids), those(keys), those(locks), those(made), those(values), those(keeps)
    if not ids[1] then return left end
  end
  call('DEL', unpack(locks))
  call('SREM', stalledKey, unpack(ids))
  if keeps then
    finishByRetention(base, now, ids, keys, values, value, made, keeps, points)
  else
    finishAlike(base, now, ids, keys, values, value, made, nil, points)
  end
  return left
end
