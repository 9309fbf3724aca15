-- Composed from extendLocks.lua and its parts. Regenerate with make composed.
-- KEYS[1] stalled

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local lockMs = ARGV[2]
local rest = 3
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
return { renewLocks(base, lockMs, rest, #ARGV) }
