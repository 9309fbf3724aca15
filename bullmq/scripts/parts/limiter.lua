--[[ rateLimitTtl returns for how many ms the rate limit is still in effect. It returns 0 if the maximum is not reached, or if
     there is no maximum. ]]
--@keys limiter
--@use safeRead
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', limiterKey)) then return 0 end
  local left = call('PTTL', limiterKey)
  if left == 0 then call('DEL', limiterKey) end
  return left > 0 and left or 0
end
