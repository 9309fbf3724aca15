--[[ getRateLimitTtl: returns how long the rate limit is still in effect.

     Arguments: base, max (jobs per window; 0 for meta.max or, without that, for the value of the key).
     Returns: the ms, or 0 if the limit is not in effect. Without any maximum it returns the PTTL of the key: the ms, -2 if
     there is no key, -1 if the key has no expiry. ]]
--@args base max
--@keys limiter meta
--@use limiter
max = tonumber(max)
if max == 0 then max = tonumber(call('HGET', metaKey, 'max')) end
if max then return rateLimitTtl(max) end
return call('PTTL', limiterKey)
