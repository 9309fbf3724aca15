--[[ range: ids of a state between two places, both inclusive, -1 the last; ascending '1' for oldest first.
     isList: the states that are lists, newest first. ]]
local isList = { wait = true, paused = true, active = true }

local function range(at, state, first, last, ascending)
  if not isList[state] then
    return call(ascending == '1' and 'ZRANGE' or 'ZREVRANGE', at, first, last)
  end
  if ascending ~= '1' then return call('LRANGE', at, first, last) end
  -- The oldest job of a list stands at its end, so the range is counted from there and read backwards.
  local function back(index) return index == -1 and 0 or -(index + 1) end
  local found, reversed = call('LRANGE', at, back(last), back(first)), {}
  for i = #found, 1, -1 do reversed[#reversed + 1] = found[i] end
  return reversed
end
