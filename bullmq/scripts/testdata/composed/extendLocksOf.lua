-- Composed from extendLocksOf.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled, of the queue in use

local call, try = redis.call, redis.pcall
local queues, keysOf, current, KEYS = KEYS, {}, nil, nil
local suffixes = { 'stalled' }
local others = { __index = function(keys, i)
  local key = current .. suffixes[i]
  keys[i] = key
  return key
end }
local function useQueue(n)
  local base = queues[n]
  current, KEYS = base, keysOf[n]
  if not KEYS then
    KEYS = setmetatable({ base .. 'stalled' }, others)
    keysOf[n] = KEYS
  end
  return base
end
local lockMs = ARGV[1]
local rest = 2
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
local function isCancelText(reason)
  return reason == 'cancelled' or string.sub(reason, 1, 11) == 'cancelled: '
end
local function renewLocks(base, lockMs, from, to)
  local lost, cancelled = {}, {}
  for i = from, to, 2 do
    local jobId, token = ARGV[i], ARGV[i + 1]
    local lockKey = base .. jobId .. ':lock'
    if unlessWrongType(try('GET', lockKey)) == token then
      call('SET', lockKey, token, 'PX', lockMs)
      call('SREM', KEYS[1], jobId)
      local failure = unlessWrongType(try('HGET', base .. jobId, 'defa'))
      if failure and isCancelText(failure) then
        cancelled[#cancelled + 1] = jobId
        cancelled[#cancelled + 1] = failure
      end
    else
      lost[#lost + 1] = jobId
    end
  end
  return lost, cancelled
end
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
local renewals, at = {}, rest
for n = 1, #queues - 1 do
  local to = at + 2 * ARGV[at]
  local fine, lost, cancelled = orText(pcall(renewLocks, useQueue(n), lockMs, at + 1, to))
  renewals[n] = fine and { lost, cancelled } or lost
  at = to + 1
end
return renewals
