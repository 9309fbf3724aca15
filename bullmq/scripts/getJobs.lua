--[[ getJobs: returns the jobs of some states, in order, each with its hash. Ids without a hash are skipped. Instead of them, a
     page with a limit has jobs that follow. These are read in at most five rounds.

     Arguments: base, from, to (inclusive, -1 the last), ascending ('1' for oldest first), then states (keys).
     Returns: for each state a list of {jobId, hash}. ]]
--@args base from to ascending ...
--@keys wait paused active delayed prioritized completed failed waiting-children
--@use legacy range safeRead
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
