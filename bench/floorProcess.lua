--[[ The floor of processing: the end of jobs that run, and the start of as many others, in as few commands as there are,
     and nothing else: of what a queue may have, such as parents, limits and delayed jobs, only the locks are looked at.
     Keys: the queue's prefix. Arguments: number of jobs to start, now (ms), token, lock duration (ms), ids of the jobs to
     end. Answer: ids of those that have started, and what was in their hashes. ]]
local base, now, token = KEYS[1], ARGV[2], ARGV[3]
local active, events = base .. 'active', base .. 'events'
local ended, locks, scores = {}, {}, {}
for i = 5, #ARGV do
  local n, id = i - 4, ARGV[i]
  ended[n], locks[n] = id, base .. id .. ':lock'
  scores[2 * n - 1], scores[2 * n] = now, id
end
if #ended > 0 then
  local owners = redis.call('MGET', unpack(locks))
  for i = 1, #owners do
    if owners[i] ~= token then return redis.error_reply('the lock of job ' .. ended[i] .. ' is not ours') end
  end
  redis.call('DEL', unpack(locks))
  redis.call('SREM', base .. 'stalled', unpack(ended))
  redis.call('RPOP', active, #ended)
  redis.call('ZADD', base .. 'completed', unpack(scores))
  redis.call('XTRIM', events, 'MAXLEN', '~', '10000')
  for i = 1, #ended do
    local id = ended[i]
    redis.call('HSET', base .. id, 'atm', '1', 'returnvalue', 'null', 'finishedOn', now)
    redis.call('XADD', events, '*', 'event', 'completed', 'jobId', id, 'returnvalue', 'null', 'prev', 'active')
  end
end
local ids = redis.call('RPOP', base .. 'wait', ARGV[1])
if not ids then return { {}, {} } end
redis.call('LPUSH', active, unpack(ids))
local hashes = {}
for i = 1, #ids do
  local id = ids[i]
  redis.call('SET', base .. id .. ':lock', token, 'PX', ARGV[4])
  redis.call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  hashes[i] = redis.call('HMGET', base .. id, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority')
  redis.call('HSET', base .. id, 'processedOn', now, 'ats', '1')
end
redis.call('ZADD', base .. 'marker', '0', '0')
return { ids, hashes }
