--[[ Removes all completed jobs except the oldest, so that the background does not change.
     Keys: the queue's prefix. Arguments: number of jobs to keep. Returns 0. ]]
local base = KEYS[1]
local ids = redis.call('ZRANGE', base .. 'completed', ARGV[1], -1)
for i = 1, #ids do redis.call('UNLINK', base .. ids[i]) end
redis.call('ZREMRANGEBYRANK', base .. 'completed', ARGV[1], -1)
return 0
