--[[ Turns some of the completed jobs into delayed jobs that are due in the year 2100.
     Keys: the queue's prefix. Returns their number; 0 if none are left. ]]
local base = KEYS[1]
local popped = redis.call('ZPOPMIN', base .. 'completed', 2000)
local scores = {}
for i = 1, #popped, 2 do
  redis.call('HDEL', base .. popped[i], 'processedOn', 'ats', 'atm', 'returnvalue', 'finishedOn')
  redis.call('HSET', base .. popped[i], 'delay', 2000000000000)
  scores[i], scores[i + 1] = (4102444800000 + i) * 4096, popped[i]
end
if #popped == 0 then return 0 end
redis.call('ZADD', base .. 'delayed', unpack(scores))
return #popped
