--[[ Turns some of the waiting jobs into jobs that completed long ago.
     Keys: the queue's prefix. Returns their number; 0 if none are left. ]]
local base = KEYS[1]
local ids = redis.call('RPOP', base .. 'wait', 2000)
if not ids then return 0 end
local scores = {}
for i = 1, #ids do
  redis.call('HSET', base .. ids[i], 'processedOn', 1700000000000, 'ats', 1, 'atm', 1, 'returnvalue', 'null', 'finishedOn', 1700000000000)
  scores[2 * i - 1], scores[2 * i] = 1700000000000 + i, ids[i]
end
redis.call('ZADD', base .. 'completed', unpack(scores))
return #ids
