--[[ countWithoutMarker returns how many jobs are in a list. It does not count the marker of BullMQ 4, which is an id 0:… at the
     end of wait. If there are jobs besides the marker, it removes the marker. ]]
local function countWithoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
