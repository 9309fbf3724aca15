--[[ The baseline of processing: finishes active jobs and starts as many others, with as few commands as possible. It checks the
     locks, and none of the other features that a queue may use, such as parents, limits and delayed jobs.
     Keys: the queue's prefix. Arguments: number of jobs to start, now (ms), token, lock duration (ms), '1' to include the three
     checks that every client must make, ids of the jobs to finish. The checks: no job has pending children, and at its start
     and at its end a job's hash has only the fields of a plain job.
     Returns id, name, data, opts and timestamp of each started job in one list. A text that equals that of the previous job
     is left out. ]]
local call, base, now, token = redis.call, KEYS[1], ARGV[2], ARGV[3]
local active, events = base .. 'active', base .. 'events'
local checks = ARGV[5] == '1'
local ended, locks, scores, pending = {}, {}, {}, {}
for i = 6, #ARGV do
  local n, id = i - 5, ARGV[i]
  ended[n], locks[n] = id, base .. id .. ':lock'
  if checks then pending[n] = base .. id .. ':dependencies' end
  scores[2 * n - 1], scores[2 * n] = now, id
end
if ended[1] then
  local owners = call('MGET', unpack(locks))
  for i = 1, #owners do
    if owners[i] ~= token then return redis.error_reply('the lock of job ' .. ended[i] .. ' has a different owner') end
  end
  if checks and call('EXISTS', unpack(pending)) > 0 then return redis.error_reply('a job has children') end
  call('DEL', unpack(locks))
  call('SREM', base .. 'stalled', unpack(ended))
  call('RPOP', active, #ended)
  call('ZADD', base .. 'completed', unpack(scores))
  call('XTRIM', events, 'MAXLEN', '~', '10000')
  for i = 1, #ended do
    local id = ended[i]
    if checks and call('HLEN', base .. id) ~= 8 then return redis.error_reply('job ' .. id .. ' has additional fields') end
    call('HSET', base .. id, 'atm', '1', 'returnvalue', 'null', 'finishedOn', now)
    call('XADD', events, '*', 'event', 'completed', 'jobId', id, 'returnvalue', 'null', 'prev', 'active')
  end
end
if ARGV[1] == '0' then return {} end
local ids = call('RPOP', base .. 'wait', ARGV[1])
if not ids then return {} end
call('LPUSH', active, unpack(ids))
local started, at, name, opts = {}, 1, nil, nil
for i = 1, #ids do
  local id = ids[i]
  call('SET', base .. id .. ':lock', token, 'PX', ARGV[4])
  call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  if checks and call('HLEN', base .. id) ~= 6 then return redis.error_reply('job ' .. id .. ' is not a plain job') end
  local set = call('HMGET', base .. id, 'name', 'data', 'opts', 'timestamp', 'delay', 'priority')
  started[at], started[at + 1], started[at + 2] = id, set[1] ~= name and set[1], set[2]
  started[at + 3], started[at + 4] = set[3] ~= opts and set[3], set[4]
  at, name, opts = at + 5, set[1], set[3]
  call('HSET', base .. id, 'processedOn', now, 'ats', '1')
end
call('ZADD', base .. 'marker', '0', '0')
return started
