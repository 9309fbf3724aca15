--[[ countWithoutMarker returns how many jobs are in a list, without the marker of BullMQ 4: an id 0:… at the end of
     wait. It removes the marker if jobs are in the list too. ]]
local function countWithoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
