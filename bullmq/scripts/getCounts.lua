--[[ getCounts: counts the jobs of some states.

     Arguments: base, before (count only delayed jobs that are due, and completed and failed jobs that finished, before this
       time in ms; or '' for all), then states (keys).
     Returns: a number for each. ]]
--@args base before ...
--@keys wait paused active delayed prioritized completed failed waiting-children
--@use text legacy
local counts = {}
for i = rest, #ARGV do
  local state = ARGV[i]
  local at = base .. state
  if state == 'wait' or state == 'paused' then
    counts[#counts + 1] = countWithoutMarker(at)
  elseif state == 'active' then
    counts[#counts + 1] = call('LLEN', at)
  elseif state == 'delayed' and given(before) then
    counts[#counts + 1] = call('ZCOUNT', at, '-inf', before * 4096 - 1)
  elseif (state == 'completed' or state == 'failed') and given(before) then
    counts[#counts + 1] = call('ZCOUNT', at, '-inf', '(' .. before)
  else
    counts[#counts + 1] = call('ZCARD', at)
  end
end
return counts
