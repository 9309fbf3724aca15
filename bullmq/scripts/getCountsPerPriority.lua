--[[ getCountsPerPriority: counts the waiting jobs of some priorities. Priority 0 stands for jobs without a priority.

     Arguments: base, then priorities.
     Returns: a number for each. ]]
--@args base ...
--@keys wait prioritized
--@keys meta paused --@v5
--@use held
local counts = {}
for i = rest, #ARGV do
  local priority = tonumber(ARGV[i])
  if priority == 0 then
    counts[#counts + 1] = call('LLEN', waitList(base))
  else
    counts[#counts + 1] =
      call('ZCOUNT', prioritizedKey, priority * 4294967296, (priority + 1) * 4294967296 - 1)
  end
end
return counts
