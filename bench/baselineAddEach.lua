--[[ The baseline of adding to many queues: writes the data of one plain job to each queue with as few commands as possible and
     reads no options. Keys: the queues' prefixes. Arguments: name, data, opts, timestamp. ]]
local call = redis.call
for i = 1, #KEYS do
  local base = KEYS[i]
  local id, events = call('INCR', base .. 'id') .. '', base .. 'events'
  call('HSET', base .. id, 'name', ARGV[1], 'data', ARGV[2], 'opts', ARGV[3], 'timestamp', ARGV[4], 'delay', '0', 'priority', '0')
  call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', ARGV[1])
  call('XADD', events, 'MAXLEN', '~', '10000', '*', 'event', 'waiting', 'jobId', id)
  call('LPUSH', base .. 'wait', id)
  call('ZADD', base .. 'marker', '0', '0')
end
return #KEYS
