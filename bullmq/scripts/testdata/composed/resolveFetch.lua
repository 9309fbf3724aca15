-- Composed from resolveFetch.lua and its parts. Regenerate with make composed.
-- KEYS[1] active

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local token = ARGV[2]
local jobId = ARGV[3]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function owns(id) return unlessWrongType(try('GET', base .. id .. ':lock')) == token end
if jobId ~= '' and owns(jobId) and call('LPOS', KEYS[1], jobId) then return { 1 } end
local running = call('LRANGE', KEYS[1], 0, -1)
for i = 1, #running do
  local hash = owns(running[i]) and unlessWrongType(try('HGETALL', base .. running[i]))
  if hash then return { 0, running[i], hash } end
end
return { 0 }
