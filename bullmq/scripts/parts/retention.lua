--[[ Retention: which finished jobs of a state are kept. The options removeOnComplete or removeOnFail of the newest job decide.

     evictOlder evicts jobs that finished more than age seconds ago, but at most limit jobs.
     evictBeyond evicts all but the newest count.
     Evicted jobs are detached from their parents and deleted; no event is emitted. ]]
--@use discard delete
local function evictJobs(base, ids)
  for i = 1, #ids do
    detachFromParent(base .. ids[i], false, base)
    deleteJob(base .. ids[i])
  end
end

local function evictOlder(base, setAt, now, age, limit)
  local edge = now - age * 1000
  local old = call('ZREVRANGEBYSCORE', setAt, edge, '-inf', 'LIMIT', 0, limit)
  if #old == 0 then return end
  evictJobs(base, old)
  if #old < limit then
    call('ZREMRANGEBYSCORE', setAt, '-inf', edge)
    return
  end
  for from = 1, #old, 7000 do
    call('ZREM', setAt, unpack(old, from, math.min(from + 6999, #old)))
  end
end

local function evictBeyond(base, setAt, count)
  evictJobs(base, call('ZREVRANGE', setAt, count, -1))
  call('ZREMRANGEBYRANK', setAt, 0, -(count + 1))
end
