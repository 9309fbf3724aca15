--[[ clean: removes jobs of one state that are older than a time (BullMQ: cleanJobsInSet). Locked jobs, and the next job of a
     scheduler, are kept.

     Arguments: base, before (ms), limit (number of jobs to examine, oldest first; 0 for all), state (its key).
     Returns: the ids of the removed jobs.
     Events: cleaned, with the count. ]]
--@args base before limit state
--@keys events repeat wait paused active delayed prioritized completed failed waiting-children
--@use discard events empty safeRead
local at = base .. state
before, limit = tonumber(before), tonumber(limit)

-- The age of a job is counted from the first of these times that the job has.
local times = {
  wait = { 'finishedOn', 'processedOn', 'timestamp' }, paused = { 'finishedOn', 'processedOn', 'timestamp' },
  active = { 'finishedOn', 'processedOn', 'timestamp' }, delayed = { 'processedOn', 'timestamp' },
  prioritized = { 'timestamp' },
}

local function scheduled(jobId)
  local scheduler = unlessWrongType(try('HGET', base .. jobId, 'rjk'))
  local due = scheduler and call('ZSCORE', repeatKey, scheduler)
  return due and jobId == 'repeat:' .. scheduler .. ':' .. due
end

local function old(jobId)
  local found = unlessWrongType(try('HMGET', base .. jobId, unpack(times[state]))) or {}
  for i = 1, #times[state] do
    local at = tonumber(found[i])
    if at and math.abs(at) < math.huge then return at <= before end
  end
  return true
end

local removed = {}
local function remove(jobId)
  discardJob(base, jobId)
  removed[#removed + 1] = jobId
end

if state == 'wait' or state == 'paused' or state == 'active' then
  local ids = call('LRANGE', at, limit > 0 and -limit or 0, -1)
  for i = 1, #ids do
    local id = ids[i]
    if (state ~= 'active' or call('EXISTS', base .. id .. ':lock') == 0) and not scheduled(id) and old(id) then
      call('LSET', at, i - #ids - 1, '')
      remove(id)
    end
  end
  call('LREM', at, 0, '')
else
  local query = { 'ZRANGEBYSCORE', at, 0, times[state] and '+inf' or before }
  if limit > 0 then
    query[5], query[6], query[7] = 'LIMIT', 0, limit
  end
  local ids = call(unpack(query))
  for i = 1, #ids do
    if not times[state] or (not scheduled(ids[i]) and old(ids[i])) then remove(ids[i]) end
  end
  removeIds(at, removed)
end
emit(eventsKey, 'cleaned', 'count', #removed)
return removed
