-- Composed from getTimings.lua and its parts. Regenerate with make composed.
-- KEYS[1] completed
-- KEYS[2] failed

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local completedFrom = ARGV[2]
local failedFrom = ARGV[3]
local max = ARGV[4]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
max = tonumber(max)
local function newest(set, from)
  return unlessWrongType(try('ZREVRANGE', set, from, from + max - 1, 'WITHSCORES')) or {}
end
local completed, failed = newest(KEYS[1], tonumber(completedFrom)), newest(KEYS[2], tonumber(failedFrom))
local c, f, jobs = 1, 1, {}
for _ = 1, max do
  local id, state, score
  if completed[c] and (not failed[f] or tonumber(completed[c + 1]) >= tonumber(failed[f + 1])) then
    id, score, state, c = completed[c], completed[c + 1], 'C', c + 2
  elseif failed[f] then
    id, score, state, f = failed[f], failed[f + 1], 'F', f + 2
  else
    break
  end
  local fields = unlessWrongType(try('HMGET', base .. id, 'name', 'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade', 'opts'))
  if fields and (fields[1] or fields[2]) then
    local opts = fields[7] or ''
    if #opts > 10000 or not string.find(opts, '"delay":', 1, true) then opts = '' end
    jobs[#jobs + 1] = {
      state, id, string.sub(fields[1] or '', 1, 500), fields[2] or '', fields[3] or '', fields[4] or score, fields[6] or fields[5] or '', opts,
    }
  end
end
return { (c - 1) / 2, (f - 1) / 2, jobs }
