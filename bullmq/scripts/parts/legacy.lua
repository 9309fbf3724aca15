--[[ withoutMarker: BullMQ 4 kept a wake-up entry (0:…) at the end of wait. Takes it away when jobs stand beside it,
     and answers how many jobs there are. ]]
local function withoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
