--[[ appendList moves all jobs of one list behind those of another. The right end of a list is fetched first. ]]
local function appendList(fromAt, toAt)
  if call('EXISTS', fromAt) == 0 then return end
  if call('EXISTS', toAt) == 0 then
    call('RENAME', fromAt, toAt)
    return
  end
  repeat
    local some = call('LRANGE', fromAt, -7000, -1)
    local nextFirst = {}
    for i = #some, 1, -1 do nextFirst[#nextFirst + 1] = some[i] end
    call('LPUSH', toAt, unpack(nextFirst))
    call('LTRIM', fromAt, 0, -#some - 1)
  until call('EXISTS', fromAt) == 0
end
