--[[ The baseline of adding: writes the data of plain jobs with as few commands as possible and reads no options.
     Keys: the queue's prefix. Arguments: number of jobs, name, data, opts, timestamp. ]]
local call, base, count = redis.call, KEYS[1], tonumber(ARGV[1])
local events = base .. 'events'
local last = call('INCRBY', base .. 'id', count)
local ids = {}
for i = 1, count do
  local id = last - count + i .. ''
  ids[i] = id
  call('HSET', base .. id, 'name', ARGV[2], 'data', ARGV[3], 'opts', ARGV[4], 'timestamp', ARGV[5], 'delay', '0', 'priority', '0')
  call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', ARGV[2])
  call('XADD', events, '*', 'event', 'waiting', 'jobId', id)
end
call('XTRIM', events, 'MAXLEN', '~', '10000')
call('LPUSH', base .. 'wait', unpack(ids))
call('ZADD', base .. 'marker', '0', '0')
return ids
