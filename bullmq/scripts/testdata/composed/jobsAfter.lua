-- Composed from jobsAfter.lua and its parts. Regenerate with make composed.
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
local count = ARGV[3]
local index = ARGV[4]
local score = ARGV[5]
local rest = 6
local lists = { wait = true, paused = true, active = true }
local at, jobs = base .. state, { 0 }
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local function rankAfter(jobId)
  local rank = call('ZREVRANK', at, jobId)
  if rank and call('ZSCORE', at, jobId) == score then return rank + 1 end
  local low = call('ZCOUNT', at, '(' .. score, '+inf')
  local high = low + call('ZCOUNT', at, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(call('ZREVRANGE', at, middle, middle)[1], jobId) then high = middle else low = middle + 1 end
  end
  return low
end
local function indexAfter()
  local expected = tonumber(index)
  if call('LINDEX', at, expected) == ARGV[rest] then return expected + 1 end
  local first = math.max(expected - 500, 0)
  local near, found = call('LRANGE', at, first, expected + 500), {}
  for i = #near, 1, -1 do found[near[i]] = first + i end
  for i = rest, #ARGV do
    if found[ARGV[i]] then return found[ARGV[i]] end
  end
  for i = rest, #ARGV do
    local position = call('LPOS', at, ARGV[i])
    if position then return position + 1 end
  end
  return 0
end
if lists[state] then
  if ARGV[rest] then jobs[1] = indexAfter() end
  local ids = call('LRANGE', at, jobs[1], jobs[1] + count - 1)
  for i = 1, #ids do
    jobs[#jobs + 1] = ids[i]
    jobs[#jobs + 1] = ''
  end
else
  if ARGV[rest] then jobs[1] = rankAfter(ARGV[rest]) end
  local members = call('ZREVRANGE', at, jobs[1], jobs[1] + count - 1, 'WITHSCORES')
  for i = 1, #members do jobs[#jobs + 1] = members[i] end
end
return jobs
