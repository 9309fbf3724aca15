--[[ drain: removes waiting jobs and, with delayed, delayed ones. The next job of each scheduler is kept.

     Arguments: base, delayed ('1' or ''), count (about how many jobs to remove).
     Returns: 0 if no job is left, 1 to call again. ]]
--@args base delayed count
--@keys wait paused delayed prioritized repeat
--@use empty
local spared = {}
local schedulers = call('ZRANGE', repeatKey, 0, -1, 'WITHSCORES')
for i = 1, #schedulers, 2 do
  spared['repeat:' .. schedulers[i] .. ':' .. schedulers[i + 1]] = true
end
local steps = { { emptyList, waitKey }, { emptyList, pausedKey }, { emptySet, delayedKey }, { emptySet, prioritizedKey } }
if delayed ~= '1' then table.remove(steps, 3) end
local left = tonumber(count)
for i = 1, #steps do
  -- The spared jobs are added, so that a call removes jobs even if many spared ones precede them.
  left = left - steps[i][1](base, steps[i][2], left + #schedulers / 2, spared)
  if left <= 0 then return 1 end
end
return 0
