-- Composed from areInState.lua and its parts. Regenerate with make composed.
-- KEYS[1] wait
-- KEYS[2] paused
-- KEYS[3] active
-- KEYS[4] delayed
-- KEYS[5] prioritized
-- KEYS[6] completed
-- KEYS[7] failed
-- KEYS[8] waiting-children

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local state = ARGV[2]
local index = ARGV[3]
local rest = 4
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
