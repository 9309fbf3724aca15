-- Composed from resolveFetches.lua and its parts. Regenerate with make composed.
-- KEYS[1] active, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'active' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'active' }, others)
    keysOf[n] = KEYS
  end
  return base
end
local rest = 1
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local wanted, found, all = {}, {}, #queues - 1
for i = rest, #ARGV do wanted[ARGV[i]] = true end
for n = 1, all do
  local base = useQueue(n)
  local running = unlessWrongType(try('LRANGE', KEYS[1], 0, -1)) or {}
  for from = 1, #running, 7000 do
    local locks = {}
    for i = from, math.min(from + 6999, #running) do locks[#locks + 1] = base .. running[i] .. ':lock' end
    local owners = call('MGET', unpack(locks))
    for i = 1, #locks do
      local jobId, owner = running[from + i - 1], owners[i]
      local hash = owner and wanted[owner] and unlessWrongType(try('HGETALL', base .. jobId))
      if hash then
        local to = #found
        found[to + 1], found[to + 2], found[to + 3], found[to + 4] = n, jobId, owner, hash
      end
    end
  end
end
return found
