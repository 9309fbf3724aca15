--[[ getJobs: jobs of some states, in order, each with its hash. Ids without a hash are passed over; a bounded
     page is then filled up from what follows, in at most five rounds.

     Arguments: base, from, to (inclusive, -1 the last), ascending '1' for oldest first, then states by the names of their keys.
     Answer: for each state a list of {jobId, hash}. ]]
--@args base from to ascending ...
--@keys wait paused active delayed prioritized completed failed waiting-children
--@use legacy
from, to = tonumber(from), tonumber(to)
local isList = { wait = true, paused = true, active = true }

local function ids(at, state, first, last, length)
  if not isList[state] then
    return call(ascending == '1' and 'ZRANGE' or 'ZREVRANGE', at, first, last)
  end
  if ascending ~= '1' then return call('LRANGE', at, first, last) end
  -- The oldest job of a list stands at its end, so the range is counted from there and read backwards.
  if length and first >= length then return {} end
  local function back(index) return index == -1 and 0 or -(index + 1) end
  local found, reversed = call('LRANGE', at, back(last), back(first)), {}
  for i = #found, 1, -1 do reversed[#reversed + 1] = found[i] end
  return reversed
end

local function page(state)
  local at, jobs, length = base .. state, {}, nil
  if state == 'wait' or state == 'paused' then
    length = withoutMarker(at)
  elseif state == 'active' then
    length = call('LLEN', at)
  end
  local bounded = from >= 0 and to >= 0
  local first, last, rounds = from, to, bounded and 5 or 1
  local wanted = bounded and to - from + 1 or math.huge
  while rounds > 0 and #jobs < wanted do
    local found = ids(at, state, first, last, bounded and length)
    if #found == 0 then break end
    for i = 1, #found do
      local hash = #jobs < wanted and call('HGETALL', base .. found[i]) or {}
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
