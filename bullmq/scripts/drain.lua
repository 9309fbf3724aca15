--[[ drain: removes all waiting jobs and, with delayed, the delayed ones. The next job of each scheduler is kept.

     Arguments: base, delayed ('1' or '').
     Returns: 0. ]]
--@args base delayed
--@keys wait paused delayed prioritized repeat
--@use empty
local spared = {}
local schedulers = call('ZRANGE', repeatKey, 0, -1, 'WITHSCORES')
for i = 1, #schedulers, 2 do
  spared['repeat:' .. schedulers[i] .. ':' .. schedulers[i + 1]] = true
end
emptyList(base, waitKey, 0, spared)
emptyList(base, pausedKey, 0, spared)
if delayed == '1' then emptySet(base, delayedKey, 0, spared) end
emptySet(base, prioritizedKey, 0, spared)
return 0
