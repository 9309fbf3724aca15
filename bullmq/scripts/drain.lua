--[[ drain: removes all jobs that wait, and with delayed those that are delayed too. The next job of each scheduler stays.

     Arguments: base, delayed '1' or ''.
     Answer: 0. ]]
--@args base delayed
--@keys wait paused delayed prioritized repeat
--@use sweep
local spared = {}
local schedulers = call('ZRANGE', repeatKey, 0, -1, 'WITHSCORES')
for i = 1, #schedulers, 2 do
  spared['repeat:' .. schedulers[i] .. ':' .. schedulers[i + 1]] = true
end
sweepList(base, waitKey, 0, spared)
sweepList(base, pausedKey, 0, spared)
if delayed == '1' then sweepSet(base, delayedKey, 0, spared) end
sweepSet(base, prioritizedKey, 0, spared)
return 0
