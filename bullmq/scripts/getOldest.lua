--[[ getOldest: finds the oldest job of some states, without reading all jobs. The command writes nothing.

     Arguments: base, then states (keys): wait, paused, active, prioritized or delayed.
     Returns: for each state what oldestOf returns. ]]
--@args base ...
--@keys wait paused active delayed prioritized
--@use oldest
local all = {}
for i = rest, #ARGV do
  all[#all + 1] = oldestOf(base, ARGV[i])
end
return all
