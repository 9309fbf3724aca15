--[[ getRateLimitTtl: returns how long the rate limit is still in effect.

     Arguments: base, max (jobs per window; 0 for meta.max or, without that, for the value of the key).
     Returns: ms, 0 if not limited; without any maximum PTTL of the key (-2 no key, -1 no expiry). ]]
--@args base max
--@keys limiter meta
--@use limiter
max = tonumber(max)
if max == 0 then max = tonumber(call('HGET', metaKey, 'max')) end
if max then return rateLimitTtl(max) end
return call('PTTL', limiterKey)
