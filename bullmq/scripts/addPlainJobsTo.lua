--[[ addPlainJobsTo: adds plain jobs to several queues. It does to each queue what addPlainJobs does.

     Arguments: for each queue kinds, the number of the values that follow, and the values of its jobs as for addPlainJobs.
     Returns: for each queue the number of its first job, or a text if its values can't be processed. Some of its jobs may
     have been added then.
     Events: those of addPlainJobs for each queue. ]]
--@queues id meta events marker
--@args ...
--@use addPlain perQueue
local numbers, at, written = {}, rest, false
for n = 1, #queues - 1 do
  local kinds, from = ARGV[at], at + 2
  local fine, first = pcall(addPlain, useQueue(n), kinds, from)
  if written and not fine then
    first = errorText(first) -- raising it would hide that the jobs of other queues were added
  elseif not written then
    fine, first = orText(fine, first)
  end
  written = true
  numbers[n], at = first, from + ARGV[at + 1]
end
return numbers
