--[[ Ending many jobs in one go.

     leaveActive:    takes jobs out of active; answers which ones stood there, by id.
     finishTogether: ends those of the jobs that have completed and need nothing but an end: held by their token, with no
                     parent, no child that is pending or failed, and no deduplication id. Each ends as finish would end it;
                     what can be done for all is one call. Answers which are done, by their number; finish looks at the others.
                     keeps: of a job with more to tell, {keepCount, keepAge, keepLimit, failed}. bare: a job of which nothing
                     was known at its start but what every job has; with nothing new it has as many fields as size tells. ]]
--@keys active stalled events completed metrics:completed
--@use text events drop retention metrics sound
--@rarely dropOlder dropBeyond measure
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
        stay[#stay + 1] = id
      end
    end
    if stay[1] then
      local back = {}
      for i = #stay, 1, -1 do back[#back + 1] = stay[i] end
      call('RPUSH', activeKey, unpack(back))
    end
  end
  for id in pairs(wanted) do
    if call('LREM', activeKey, -1, id) == 1 then left[id] = true end
  end
  return left
end

-- Of the jobs with these numbers, which have one retention, or none.
local function endAlike(base, now, numbers, ids, keys, values, made, keeps, points)
  local ended = {}
  for i = 1, #numbers do
    local n = numbers[i]
    if keeps[n] and keeps[n][1] == '0' then
      dropJob(keys[n])
    else
      call('HSET', keys[n], 'atm', made[n], 'returnvalue', values[n], 'finishedOn', now)
      ended[#ended + 1] = now
      ended[#ended + 1] = ids[n]
    end
  end
  if ended[1] then
    call('ZADD', completedKey, unpack(ended))
    local keep = keeps[numbers[1]]
    if keep and keep[1] ~= '0' then
      if given(keep[2]) then
        for _ = 1, #numbers do dropOlder(base, completedKey, now, tonumber(keep[2]), tonumber(keep[3]) or 1000) end
      end
      local count = tonumber(keep[1])
      if count and count > 0 then dropBeyond(base, completedKey, count) end
    end
  end
  for i = 1, #numbers do
    local n = numbers[i]
    if i == #numbers then trim() end -- before the last event, as a single end does
    call('XADD', eventsKey, '*', 'event', 'completed', 'jobId', ids[n], 'returnvalue', values[n], 'prev', 'active')
  end
  if given(points) then measure(metricsCompletedKey, points, now, #numbers) end
end

local function finishTogether(base, now, ids, tokens, values, keeps, bare, size, points)
  local done, keys, locks, pending = {}, {}, {}, {}
  for i = 1, #ids do
    local jobKey = base .. ids[i]
    keys[i], locks[i], pending[i] = jobKey, jobKey .. ':lock', jobKey .. ':dependencies'
  end
  if call('EXISTS', unpack(pending)) > 0 then return done end
  local owners, chosen, theirIds, made = call('MGET', unpack(locks)), {}, {}, {}
  for i = 1, #ids do
    if owners[i] == tokens[i] and not (keeps[i] and keeps[i][4]) then
      if bare[i] and redis.pcall('HLEN', keys[i]) == size then
        made[i] = '1' -- and no child has failed, for that writes defa
      elseif call('EXISTS', keys[i] .. ':unsuccessful') == 0 then
        local set = redis.pcall('HMGET', keys[i], 'ats', 'atm', 'parentKey', 'parent', 'deid')
        if set[1] and not (set[3] or set[4] or set[5]) then made[i] = wholeOf(set[2]) + 1 end
      end
      if made[i] then
        chosen[#chosen + 1], theirIds[#theirIds + 1] = i, ids[i]
      end
    end
  end
  if not chosen[1] then return done end

  local left, freed, gone, kinds, alike = leaveActive(theirIds), {}, {}, {}, {}
  for i = 1, #chosen do
    local n = chosen[i]
    if left[ids[n]] then
      done[n] = true
      freed[#freed + 1], gone[#gone + 1] = locks[n], ids[n]
      local kind = ''
      if keeps[n] and keeps[n][1] ~= '0' then kind = table.concat(keeps[n], ' ', 1, 3) end
      if not alike[kind] then
        kinds[#kinds + 1], alike[kind] = kind, {}
      end
      local numbers = alike[kind]
      numbers[#numbers + 1] = n
    end
  end
  if not gone[1] then return done end
  call('DEL', unpack(freed))
  call('SREM', stalledKey, unpack(gone))
  -- Those that leave the others alone end first: so what stays is what would stay if they had ended one after the other.
  if alike[''] then endAlike(base, now, alike[''], ids, keys, values, made, keeps, points) end
  for i = 1, #kinds do
    if kinds[i] ~= '' then endAlike(base, now, alike[kinds[i]], ids, keys, values, made, keeps, points) end
  end
  return done
end
