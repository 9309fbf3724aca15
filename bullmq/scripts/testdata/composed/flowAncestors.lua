-- Composed from flowAncestors.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local queues = KEYS
local tag = ARGV[1]
local max = ARGV[2]
local jobId = ARGV[3]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local key, path, seen = queues[1] .. jobId, {}, {}
while true do
  if tag ~= '' and string.match(key, '{([^}]*)}') ~= tag then return { path, 'elsewhere' } end
  local fields = unlessWrongType(try('HMGET', key, 'parentKey', 'timestamp', 'name'))
  if not fields or not fields[2] and not fields[3] then return { path, 'gone' } end
  if not fields[1] or fields[1] == '' then return { path, 'root' } end
  seen[key] = true
  if seen[fields[1]] then return { path, 'again' } end
  if #path >= tonumber(max) then return { path, 'more' } end
  key = fields[1]
  path[#path + 1] = key
end
