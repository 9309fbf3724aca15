-- Composed from findDeadLetter.lua and its parts. Regenerate with make composed.
-- KEYS[1] meta

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local queueKey = ARGV[2]
local jobId = ARGV[3]
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
local function letterIdOf(queueKey, jobId, n)
  local id = string.match(queueKey, '[^:]*$') .. '-' .. string.gsub(jobId, ':', '_')
  if n > 1 then id = id .. '-' .. n end
  return id
end
local newest, failedAt
local n, missing = 0, 0
while missing < 10 do
  n = n + 1
  local id = letterIdOf(queueKey, jobId, n)
  local opts = unlessWrongType(try('HGET', base .. id, 'opts'))
  missing = opts and 0 or missing + 1
  local read, decoded = pcall(cjson.decode, opts or '')
  local letter = read and type(decoded) == 'table' and decoded.deadLetter
  if type(letter) == 'table' and letter.queue == queueKey and letter.id == jobId then
    local at = toNumber(letter.failedAt)
    if not newest or at >= failedAt then newest, failedAt = id, at end
  end
end
if not newest then return {} end
return { newest, call('HGETALL', base .. newest) }
