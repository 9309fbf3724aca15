--[[ getRateLimitTtl: ms until the rate limit ends.

     Arguments: base, max: jobs a window allows; 0 to take meta.max, and without that whatever the key says.
     Answer: ms, 0 when not limited; without any maximum the key's own PTTL (-2 no key, -1 no expiry). ]]
--@args base max
--@keys limiter meta
--@use limiter
max = tonumber(max)
if max == 0 then max = tonumber(call('HGET', metaKey, 'max')) end
if max then return limitedFor(max) end
return call('PTTL', limiterKey)
