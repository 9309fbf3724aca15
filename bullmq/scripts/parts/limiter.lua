--[[ rateLimitTtl returns for how many ms the rate limit holds: 0 if it is not reached, or if there is no maximum. ]]
--@keys limiter
--@use safeRead
local function rateLimitTtl(max)
  if not max or max > toNumber(call('GET', limiterKey)) then return 0 end
  local left = call('PTTL', limiterKey)
  if left == 0 then call('DEL', limiterKey) end
  return left > 0 and left or 0
end
