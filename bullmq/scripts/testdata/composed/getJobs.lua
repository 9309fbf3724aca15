-- Composed from getJobs.lua and its parts. Regenerate with make composed.
-- KEYS[1] wait
-- KEYS[2] paused
-- KEYS[3] active
-- KEYS[4] delayed
-- KEYS[5] prioritized
-- KEYS[6] completed
-- KEYS[7] failed
-- KEYS[8] waiting-children

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local from = ARGV[2]
local to = ARGV[3]
local ascending = ARGV[4]
local rest = 5
local function countWithoutMarker(list)
  local last = call('LINDEX', list, -1)
  local count = call('LLEN', list)
  if not last or string.sub(last, 1, 2) ~= '0:' then return count end
  if count > 1 then call('RPOP', list) end
  return count - 1
end
local isList = { wait = true, paused = true, active = true }
local function range(at, state, first, last, ascending)
  if not isList[state] then
    return call(ascending == '1' and 'ZRANGE' or 'ZREVRANGE', at, first, last)
  end
  if ascending ~= '1' then return call('LRANGE', at, first, last) end
  local function back(index) return index == -1 and 0 or -(index + 1) end
  local found, reversed = call('LRANGE', at, back(last), back(first)), {}
  for i = #found, 1, -1 do reversed[#reversed + 1] = found[i] end
  return reversed
end
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end
from, to = tonumber(from), tonumber(to)
local function page(state)
  local at, jobs = base .. state, {}
  if state == 'wait' or state == 'paused' then countWithoutMarker(at) end
  local bounded = from >= 0 and to >= 0
  local first, last, rounds = from, to, bounded and 5 or 1
  local wanted = bounded and to - from + 1 or math.huge
  while rounds > 0 and #jobs < wanted do
    local found = range(at, state, first, last, ascending)
    if #found == 0 then break end
    for i = 1, #found do
      local hash = #jobs < wanted and unlessWrongType(try('HGETALL', base .. found[i])) or {}
      if #hash > 0 then jobs[#jobs + 1] = { found[i], hash } end
    end
    first, rounds = first + #found, rounds - 1
    last = first + wanted - 1
  end
  return jobs
end
local pages = {}
for i = rest, #ARGV do pages[#pages + 1] = page(ARGV[i]) end
return pages
