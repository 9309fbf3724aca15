--[[ getJobIds: returns the ids of the jobs of some states, in order, whether they have a hash or not.

     Arguments: base, from, to (inclusive, -1 the last), ascending ('1' for oldest first), then states (keys).
     Returns: the ids, one state after the other. ]]
--@args base from to ascending ...
--@keys wait paused active delayed prioritized completed failed waiting-children
--@use legacy range
local ids = {}
for i = rest, #ARGV do
  local state = ARGV[i]
  local at = base .. state
  local empty = (state == 'wait' or state == 'paused') and countWithoutMarker(at) == 0
  local found = empty and {} or range(at, state, tonumber(from), tonumber(to), ascending)
  for j = 1, #found do ids[#ids + 1] = found[j] end
end
return ids
