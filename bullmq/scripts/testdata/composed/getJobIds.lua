-- Composed from getJobIds.lua and its parts. Regenerate with make composed.
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
local from = ARGV[2]
local to = ARGV[3]
local ascending = ARGV[4]
local rest = 5
local function countWithoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
local isList = { wait = true, paused = true, active = true }
local function range(at, state, first, last, ascending)
  if not isList[state] then
    return call(ascending == '1' and 'ZRANGE' or 'ZREVRANGE', at, first, last)
  end
  if ascending ~= '1' then return call('LRANGE', at, first, last) end
  local function back(index) return index == -1 and 0 or -(index + 1) end
  local found, reversed = call('LRANGE', at, back(last), back(first)), {}
  for i = #found, 1, -1 do reversed[#reversed + 1] = found[i] end
  return reversed
end
local ids = {}
for i = rest, #ARGV do
  local state = ARGV[i]
  local at = base .. state
  local empty = (state == 'wait' or state == 'paused') and countWithoutMarker(at) == 0
  local found = empty and {} or range(at, state, tonumber(from), tonumber(to), ascending)
  for j = 1, #found do ids[#ids + 1] = found[j] end
end
return ids
