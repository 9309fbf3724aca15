-- Composed from getCounts.lua and its parts. Regenerate with make composed.
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
local before = ARGV[2]
local rest = 3
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local function countWithoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
local counts = {}
for i = rest, #ARGV do
  local state = ARGV[i]
  local at = base .. state
  if state == 'wait' or state == 'paused' then
    counts[#counts + 1] = countWithoutMarker(at)
  elseif state == 'active' then
    counts[#counts + 1] = call('LLEN', at)
  elseif state == 'delayed' and given(before) then
    counts[#counts + 1] = call('ZCOUNT', at, '-inf', before * 4096 - 1)
  elseif (state == 'completed' or state == 'failed') and given(before) then
    counts[#counts + 1] = call('ZCOUNT', at, '-inf', '(' .. before)
  else
    counts[#counts + 1] = call('ZCARD', at)
  end
end
return counts
