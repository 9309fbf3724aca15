--[[ range returns the ids of a state between two indexes, both inclusive, -1 being the last. ascending is '1' for oldest
     first. isList contains the states that are lists; these have the newest job first. ]]
local isList = { wait = true, paused = true, active = true }

local function range(at, state, first, last, ascending)
  if not isList[state] then
    return call(ascending == '1' and 'ZRANGE' or 'ZREVRANGE', at, first, last)
  end
  if ascending ~= '1' then return call('LRANGE', at, first, last) end
  -- The oldest job is at the end of a list. So the range counts from the end, and the result is reversed.
  local function back(index) return index == -1 and 0 or -(index + 1) end
  local found, reversed = call('LRANGE', at, back(last), back(first)), {}
  for i = #found, 1, -1 do reversed[#reversed + 1] = found[i] end
  return reversed
end
