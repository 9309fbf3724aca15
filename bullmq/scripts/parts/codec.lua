--[[ The compact forms of calls that carry many jobs. codec.go documents them.

     idTexts returns the ids of plain jobs, one for each kind. The first id is that of the number before + 1.
     finishedJobs reads the jobs of moveToFinished from ARGV. It returns ids, tokens, values (or nil), the common value (or
             nil), bytes, keeps (or nil), and the index after the jobs.
             bytes has a byte for each job: '4' or more if the job had only the base fields and did not fail.
             keeps has, by the number of a job, {keepCount, keepAge, keepLimit, the index in ARGV of the attempts of a failed
             job, the last index of the job in ARGV}.
     appendFullJob appends a job that needs more than the short form to the reply of a fetch, at a given index. It returns
             the index of the next job, the length of this job, its field ats, and whether it counts for the rate limit.
             A job whose key is not a hash can neither run nor be marked as failed. Its id is removed from active, the event
             failed gives the reason, and nothing is returned. ]]
--@keys active events
--@use events safeRead
local function idTexts(before, kinds)
  -- Lua formats numbers slowly, so ten ids share all digits except the last.
  local ids, digits = { unpack(kinds) }, { '1', '2', '3', '4', '5', '6', '7', '8', '9', [0] = '0' }
  local tens
  for i = 1, #ids do
    local number = before + i
    local digit = number % 10
    if not tens or digit == 0 then tens = number < 10 and '' or (number - digit) / 10 .. '' end
    ids[i] = number < 1e14 and tens .. digits[digit] or number .. ''
  end
  return ids
end

local function finishedJobs(kinds, value, from)
  local count = #kinds
  local function column(first) return { unpack(ARGV, first, first + count - 1) } end
  local ids, tokens, values = column(from), column(from + count), nil
  local at = from + 2 * count
  if value == '' then
    values, value = column(at), nil
    at = at + count
  end
  local bytes, keeps = { string.byte(kinds, 1, count) }, nil
  if string.find(kinds, '[2367]') then
    keeps = {}
    for i = 1, count do
      if bytes[i] % 4 > 1 then
        local last = at + ARGV[at]
        local failed = last > at + 3 and at + 4
        keeps[i] = { ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], failed, last }
        at = last + 1
        if failed then bytes[i] = 0 end
      end
    end
  end
  return ids, tokens, values, value, bytes, keeps, at
end

local function appendFullJob(jobId, jobKey, baseFields, taken, at)
  if baseFields[1] and baseFields[2] and baseFields[3] and baseFields[4] and baseFields[5] and baseFields[6] then
    taken[at], taken[at + 1] = -1, jobId
    for i = 1, 6 do taken[at + 1 + i] = baseFields[i] end
    return at + 8, #baseFields[2] + #baseFields[3], '1', true
  end
  local hash = unlessWrongType(try('HGETALL', jobKey))
  if not hash then
    call('LREM', activeKey, 1, jobId)
    emit(eventsKey, 'failed', 'jobId', jobId, 'failedReason', 'the key of the job holds no hash, but a '
      .. call('TYPE', jobKey).ok, 'prev', 'active')
    return
  end
  local length, starts, counts = 0, '1', true
  taken[at], taken[at + 1] = #hash, jobId
  for i = 1, #hash do taken[at + 1 + i] = hash[i] end
  for i = 1, #hash, 2 do
    local field, value = hash[i], hash[i + 1]
    length = length + #value
    if field == 'ats' then starts = toInteger(value) + 1 end
    if field == 'defa' then counts = false end --@v6
  end
  return at + 2 + #hash, length, starts, counts
end
