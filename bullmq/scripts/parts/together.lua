--[[ Ending many jobs in one go.

     leaveActive:    takes jobs out of active; answers which ones stood there, by id: left[id] is 1.
     finishTogether: ends those of the jobs that have completed and need nothing but an end: held by their token, with no
                     parent, no child that is pending or failed, and no deduplication id. Each ends as finish would end it;
                     what can be done for all is one call. Answers which are done, by their number; finish looks at the others.
                     keeps: of a job with more to tell, {keepCount, keepAge, keepLimit, failed}. kindOf: above 3 for a job
                     of which nothing was known at its start but what every job has; with nothing new it has as many fields
                     as size tells.
     Tables are made as copies of ids and written over: one that grows job by job is moved each time it doubles. ]]
--@keys active stalled events completed metrics:completed
--@use text events drop retention metrics sound
--@rarely dropOlder dropBeyond measure
local function leaveActive(ids)
  local left, missing = {}, #ids
  for i = 1, #ids do left[ids[i]] = 0 end
  if missing > 1 then
    -- Most of them are the ones that have been there longest.
    local popped, stay = call('RPOP', activeKey, missing) or {}, {}
    for i = 1, #popped do
      local id = popped[i]
      if left[id] == 0 then
        left[id], missing = 1, missing - 1
      else
        stay[#stay + 1] = id
      end
    end
    if stay[1] then
      local back = {}
      for i = #stay, 1, -1 do back[#back + 1] = stay[i] end
      call('RPUSH', activeKey, unpack(back))
    end
    if missing == 0 then return left end
  end
  for id, found in pairs(left) do
    if found == 0 then left[id] = call('LREM', activeKey, -1, id) end
  end
  return left
end

-- Of the jobs with these numbers, which have one retention, or none.
local function endAlike(base, now, numbers, ids, keys, values, made, keeps, points)
  local ended, to, stream = {}, 0, eventsKey
  for i = 1, #numbers do
    local n = numbers[i]
    if keeps[n] and keeps[n][1] == '0' then
      dropJob(keys[n])
    else
      call('HSET', keys[n], 'atm', made[n], 'returnvalue', values[n], 'finishedOn', now)
      ended[to + 1], ended[to + 2] = now, ids[n]
      to = to + 2
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
    call('XADD', stream, '*', 'event', 'completed', 'jobId', ids[n], 'returnvalue', values[n], 'prev', 'active')
  end
  if given(points) then measure(metricsCompletedKey, points, now, #numbers) end
end

local function finishTogether(base, now, ids, tokens, values, keeps, kindOf, size, points)
  local done, keys, locks, pending = {}, { unpack(ids) }, { unpack(ids) }, { unpack(ids) }
  for i = 1, #ids do
    local jobKey = base .. ids[i]
    keys[i], locks[i], pending[i] = jobKey, jobKey .. ':lock', jobKey .. ':dependencies'
  end
  if call('EXISTS', unpack(pending)) > 0 then return done end
  local owners, made, chosen = call('MGET', unpack(locks)), { unpack(ids) }, { unpack(ids) }
  local count = 0
  for i = 1, #ids do
    made[i] = false
    if owners[i] == tokens[i] and not (keeps[i] and keeps[i][4]) then
      if kindOf[i] > 3 and try('HLEN', keys[i]) == size then
        made[i] = '1' -- and no child has failed, for that writes defa
      elseif call('EXISTS', keys[i] .. ':unsuccessful') == 0 then
        local set = try('HMGET', keys[i], 'ats', 'atm', 'parentKey', 'parent', 'deid')
        if set[1] and not (set[3] or set[4] or set[5]) then made[i] = wholeOf(set[2]) + 1 end
      end
    end
    if made[i] then
      count = count + 1
      chosen[count] = ids[i]
    end
  end
  if count == 0 then return done end
  for i = count + 1, #ids do chosen[i] = nil end

  local left, kinds, alike = leaveActive(chosen), {}, { [''] = { unpack(ids) } }
  local freed, gone = chosen, { unpack(chosen) }
  local plain = 0
  count = 0
  for i = 1, #ids do
    if made[i] and left[ids[i]] == 1 then
      done[i] = true
      count = count + 1
      freed[count], gone[count] = locks[i], ids[i]
      local keep = keeps[i]
      if not keep or keep[1] == '0' then
        plain = plain + 1
        alike[''][plain] = i
      else
        local kind = table.concat(keep, ' ', 1, 3)
        if not alike[kind] then
          kinds[#kinds + 1], alike[kind] = kind, {}
        end
        local numbers = alike[kind]
        numbers[#numbers + 1] = i
      end
    end
  end
  if count == 0 then return done end
  call('DEL', unpack(freed, 1, count))
  call('SREM', stalledKey, unpack(gone, 1, count))
  -- Those that leave the others alone end first: so what stays is what would stay if they had ended one after the other.
  for i = plain + 1, #ids do alike[''][i] = nil end
  if plain > 0 then endAlike(base, now, alike[''], ids, keys, values, made, keeps, points) end
  for i = 1, #kinds do
    endAlike(base, now, alike[kinds[i]], ids, keys, values, made, keeps, points)
  end
  return done
end
