-- Composed from startNamed.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local token = ARGV[3]
local concurrency = ARGV[4]
local max = ARGV[5]
local windowMs = ARGV[6]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
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
