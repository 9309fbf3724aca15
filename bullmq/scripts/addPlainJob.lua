--[[ addPlainJob: adds a job that may run at once and has nothing that needs care: no id of its own, no parent, no scheduler,
     no deduplication. Most jobs are such; addStandardJob does the same for the others.

     Arguments: base, name, data (JSON), opts (JSON as stored), timestamp and delay (ms), priority, lifo '1' or ''.
     Answer: the job's id.
     Events: added, waiting. ]]
--@args base name data opts timestamp delay priority lifo
--@keys id meta active events wait marker
--@use gate events marker
local jobId = call('INCR', idKey) .. ''
local limit, isHeld = capAndHeld(metaKey, activeKey)
call('HSET', base .. jobId, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp, 'delay', delay,
  'priority', priority)
say(eventsKey, 'added', 'jobId', jobId, 'name', name)
call(lifo == '1' and 'RPUSH' or 'LPUSH', waitKey, jobId)
wake(markerKey, isHeld)
sayTrimmed(limit, 'waiting', 'jobId', jobId)
return jobId
