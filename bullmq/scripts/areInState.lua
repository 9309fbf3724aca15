--[[ areInState: reports which jobs are in a state. In a list it looks first where the jobs are expected, and searches the list
     only for a job that is not there and in no other state.

     Arguments: base, state (a key), index (at which the first of the jobs is expected in a list), then the ids, in their order
     in the list.
     Returns: for each job its index in a list, or 0 in a set; -1 if it is not in the state. ]]
--@args base state index ...
--@keys wait paused active delayed prioritized completed failed waiting-children
local lists = { wait = true, paused = true, active = true }
local at, places, missing = base .. state, {}, 0
for i = rest, #ARGV do places[ARGV[i]] = -1 end

local function look(first, last)
  first = math.max(first, 0)
  local ids = call('LRANGE', at, first, last)
  missing = 0
  for i = #ids, 1, -1 do
    if places[ids[i]] then places[ids[i]] = first + i - 1 end
  end
  for i = rest, #ARGV do
    if places[ARGV[i]] < 0 then missing = missing + 1 end
  end
end

local function isElsewhere(jobId)
  if call('EXISTS', base .. jobId) == 0 then return true end
  local sets = { 'completed', 'failed', 'delayed', 'prioritized', 'waiting-children' }
  for i = 1, #sets do
    if call('ZSCORE', base .. sets[i], jobId) then return true end
  end
  return state ~= 'active' and call('LPOS', base .. 'active', jobId)
end

if lists[state] then
  local expected, count = tonumber(index), #ARGV - rest
  look(expected - 100, expected + count + 100)
  if missing > 0 then look(expected - 1000, expected + count + 1000) end
  for i = rest, #ARGV do
    local jobId = ARGV[i]
    if places[jobId] < 0 and not isElsewhere(jobId) then places[jobId] = call('LPOS', at, jobId) or -1 end
  end
else
  for i = rest, #ARGV do
    if call('ZSCORE', at, ARGV[i]) then places[ARGV[i]] = 0 end
  end
end
local found = {}
for i = rest, #ARGV do found[#found + 1] = places[ARGV[i]] end
return found
