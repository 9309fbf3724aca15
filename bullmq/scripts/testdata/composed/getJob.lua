-- Composed from getJob.lua and its parts. Regenerate with make composed.
-- KEYS[1] completed
-- KEYS[2] failed
-- KEYS[3] delayed
-- KEYS[4] prioritized
-- KEYS[5] active
-- KEYS[6] wait
-- KEYS[7] paused
-- KEYS[8] waiting-children
-- KEYS[9] events

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local position = ARGV[3]
local function stateOf(jobId)
  local function sorted(set) return call('ZSCORE', set, jobId) end
  local function listed(list) return call('LPOS', list, jobId) end
  if sorted(KEYS[1]) then return 'completed' end
  if sorted(KEYS[2]) then return 'failed' end
  if sorted(KEYS[3]) then return 'delayed' end
  if sorted(KEYS[4]) then return 'prioritized' end
  if listed(KEYS[5]) then return 'active' end
  if listed(KEYS[6]) or listed(KEYS[7]) then return 'waiting' end
  if sorted(KEYS[8]) then return 'waiting-children' end
  return 'unknown'
end
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local last = '0-0'
if position == '1' then
  local entries = call('XREVRANGE', KEYS[9], '+', '-', 'COUNT', 1)
  if entries[1] then last = entries[1][1] end
end
return { stateOf(jobId), unlessWrongType(try('HGETALL', base .. jobId)) or {}, last }
