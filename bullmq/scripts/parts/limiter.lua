--[[ limitedFor: ms until the rate limit ends; 0 when it isn't reached, or when no maximum is set. ]]
--@keys limiter
--@use sound
local function limitedFor(max)
  if not max or max > numberOf(call('GET', limiterKey)) then return 0 end
  local left = call('PTTL', limiterKey)
  if left == 0 then call('DEL', limiterKey) end
  return left > 0 and left or 0
end
