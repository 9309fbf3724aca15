--[[ startNamed: asks whether a running job may start under the limits of its name.

     Its keys are extensions: <prefix>:<queue>@x:running:<name>, a hash of job id to token, and <prefix>:<queue>@x:started:<name>, the
     number of starts in a window, which expires with it. A job in the hash counts as running while its lock has that token. So
     the count is correct when a worker dies, too: nothing has to be taken back.
     Arguments: base, jobId, token, concurrency (0: no limit), max (starts in a window; 0: no limit), windowMs.
     Returns: 1 if it may start, and has been counted. Otherwise 0, and it is not counted as one of its starts. Then the ms until
     the end of the window, or 0 if too many run. ]]
--@args base jobId token concurrency max windowMs
--@use safeRead
local running, started, jobKey = KEYS[1], KEYS[2], base .. jobId
local function refuse(left)
  if toNumber(unlessWrongType(try('HGET', jobKey, 'ats'))) > 0 then call('HINCRBY', jobKey, 'ats', -1) end
  return { 0, left }
end

max, concurrency = tonumber(max), tonumber(concurrency)
if max > 0 and toNumber(call('GET', started)) >= max then
  local left = call('PTTL', started)
  if left > 0 then return refuse(left) end
  call('DEL', started)
end
if concurrency > 0 then
  if call('HLEN', running) >= concurrency then
    local held = call('HGETALL', running)
    for i = 1, #held, 2 do
      if unlessWrongType(try('GET', base .. held[i] .. ':lock')) ~= held[i + 1] then call('HDEL', running, held[i]) end
    end
  end
  local full = call('HLEN', running) >= concurrency
  if not full then call('HSET', running, jobId, token) end
  call('PEXPIRE', running, 604800000) -- a week without an attempt to start
  if full then return refuse(0) end
end
if max > 0 and call('INCR', started) == 1 then call('PEXPIRE', started, windowMs) end
return { 1, 0 }
