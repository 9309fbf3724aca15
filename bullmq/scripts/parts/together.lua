--[[ Ending many jobs in one go.

     leaveActive:    takes jobs out of active; nil where all stood there, or which did: stood[id] is true.
     endAlike:       what is left to do for jobs of one retention, if any, once they have no lock and no place in active.
     endInTurn:      the same for jobs of several retentions.
     finishTogether: ends those of the jobs that have completed and need nothing but an end: held by their token, with no
                     parent, no child that is pending or failed, and no deduplication id. Each ends as finish would end it;
                     what can be done for all is one call. Answers left: left[n] is true of the others; finish looks at these.
                     values: of each; or value: of all. keeps: nil, or, by number, of a job with more to tell,
                     {keepCount, keepAge, keepLimit, failed}. kinds: bytes, from '4' on of a job of which nothing was known at
                     its start but what every job has, and that has not failed; with nothing new it has as many fields as
                     size tells.
     attemptOf:      the attempt with which such a job ends that has run before, or been given something; nil where it needs
                     more than an end.
     made is that attempt, by the number of the job, where it isn't the first. Most calls have
     nothing but jobs that are alike, and so these cost no step of Lua that can be saved. Tables are made as copies of ids and
     written over: one that grows job by job is moved each time it doubles. ]]
--@keys active stalled events completed metrics:completed
--@use text events drop retention metrics sound
local function leaveActive(ids)
  local stood, stay, found = {}, {}, 0
  for i = 1, #ids do stood[ids[i]] = false end
  -- Most of them are the ones that have been there longest.
  local popped = ids[2] and call('RPOP', activeKey, #ids) or {}
  for i = 1, #popped do
    local id = popped[i]
    if stood[id] == false then
      stood[id], found = true, found + 1
    else
      stay[#stay + 1] = id
    end
  end
  if stay[1] then
    local back = {}
    for i = #stay, 1, -1 do back[#back + 1] = stay[i] end
    call('RPUSH', activeKey, unpack(back))
  end
  if found == #ids then return end
  for id, is in pairs(stood) do
    if not is then stood[id] = call('LREM', activeKey, '-1', id) > 0 end
  end
  return stood
end

local function attemptOf(jobKey)
  if call('EXISTS', jobKey .. ':unsuccessful') > 0 then return end
  local set = try('HMGET', jobKey, 'ats', 'atm', 'parentKey', 'parent', 'deid')
  if set[1] and not (set[3] or set[4] or set[5]) then return wholeOf(set[2]) + 1 end
end

local function endAlike(base, now, ids, keys, values, value, made, keeps, points)
  local ended, to, stream = {}, 0, eventsKey
  for i = 1, #ids do
    if keeps and keeps[i] and keeps[i][1] == '0' then
      dropJob(keys[i])
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
        for _ = 1, #ids do dropOlder(base, completedKey, now, tonumber(keep[2]), tonumber(keep[3]) or 1000) end
      end
      local count = tonumber(keep[1])
      if count and count > 0 then dropBeyond(base, completedKey, count) end
    end
  end
  for i = 1, #ids do
    if i == #ids then trim() end -- before the last event, as a single end does
    call('XADD', stream, '*', 'event', 'completed', 'jobId', ids[i], 'returnvalue', value or values[i], 'prev', 'active')
  end
  if given(points) then measure(metricsCompletedKey, points, now, #ids) end
end

-- The first of a list, without some.
local function without(list, first, some)
  local rest, n = {}, 0
  for i = 1, first do
    if not some[i] then
      n = n + 1
      rest[n] = list[i]
    end
  end
  return rest
end

local function endInTurn(base, now, ids, keys, values, value, made, keeps, points)
  -- Those that leave the others alone end first: so what stays is what would stay if they had ended one after the other.
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
    local of = function(list) return list and without(list, #ids, others[kind]) end
    local some = of(ids)
    if some[1] then endAlike(base, now, some, of(keys), of(values), value, of(made), of(keeps), points) end
  end
end

local function finishTogether(base, now, ids, tokens, values, value, keeps, kinds, size, points)
  local many, left, anyLeft = #ids, {}, false
  local keys, locks, pending = { unpack(ids) }, { unpack(ids) }, { unpack(ids) }
  for i = 1, many do
    local jobKey = base .. ids[i]
    keys[i], locks[i], pending[i] = jobKey, jobKey .. ':lock', jobKey .. ':dependencies'
  end
  if call('EXISTS', unpack(pending)) > 0 then
    for i = 1, many do left[i] = true end
    return left
  end
  local owners, made = call('MGET', unpack(locks)), {}
  for i = 1, many do
    local held = owners[i] == tokens[i]
    -- Bytes below that of '4', or a hash with something new. Without, no child has failed either, for that writes defa.
    if not held or kinds[i] < 52 or try('HLEN', keys[i]) ~= size then
      if held and not (keeps and keeps[i] and keeps[i][4]) then made[i] = attemptOf(keys[i]) end
      if not made[i] then left[i], anyLeft = true, true end
    end
  end
  local ending = anyLeft and without(ids, many, left) or ids
  local stood = ending[1] and leaveActive(ending)
  if stood then
    for i = 1, many do
      if not left[i] and not stood[ids[i]] then left[i], anyLeft = true, true end
    end
  end
  if anyLeft then
    local those = function(list) return list and without(list, many, left) end
    ids, keys, locks, made, values, keeps = those(ids), those(keys), those(locks), those(made), those(values), those(keeps)
    if not ids[1] then return left end
  end
  call('DEL', unpack(locks))
  call('SREM', stalledKey, unpack(ids))
  if keeps then
    endInTurn(base, now, ids, keys, values, value, made, keeps, points)
  else
    endAlike(base, now, ids, keys, values, value, made, nil, points)
  end
  return left
end
