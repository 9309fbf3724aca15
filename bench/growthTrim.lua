--[[ Removes all completed jobs but the oldest, so that the background stays what it was.
     Keys: the queue's prefix. Arguments: how many stay. Answer: 0. ]]
local base = KEYS[1]
local ids = redis.call('ZRANGE', base .. 'completed', ARGV[1], -1)
for i = 1, #ids do redis.call('UNLINK', base .. ids[i]) end
redis.call('ZREMRANGEBYRANK', base .. 'completed', ARGV[1], -1)
return 0
