--[[ getMetrics: returns the counts of completed or failed jobs that workers have stored.

     Arguments: base, kind (completed or failed), from, to (a range of minutes, newest first, -1 the oldest).
     Returns: {{count, prevTS, prevCount}, minutes, number of minutes}. ]]
--@args base kind from to
--@keys metrics:completed metrics:failed
local at = base .. 'metrics:' .. kind
return {
  call('HMGET', at, 'count', 'prevTS', 'prevCount'),
  call('LRANGE', at .. ':data', from, to),
  call('LLEN', at .. ':data'),
}
