--[[ What is kept of the finished jobs of one kind, given the newest one's removeOnComplete or removeOnFail.
     dropOlder: those that ended more than age seconds ago, at most limit of them.
     dropBeyond: all but the newest count. ]]
--@use remove drop
local function dropEach(base, ids)
  for i = 1, #ids do
    unlinkFromParent(base .. ids[i], false, base)
    dropJob(base .. ids[i])
  end
end

local function dropOlder(base, setAt, now, age, limit)
  local edge = now - age * 1000
  local old = call('ZREVRANGEBYSCORE', setAt, edge, '-inf', 'LIMIT', 0, limit)
  if #old == 0 then return end
  dropEach(base, old)
  if #old < limit then
    call('ZREMRANGEBYSCORE', setAt, '-inf', edge)
    return
  end
  for from = 1, #old, 7000 do
    call('ZREM', setAt, unpack(old, from, math.min(from + 6999, #old)))
  end
end

local function dropBeyond(base, setAt, count)
  dropEach(base, call('ZREVRANGE', setAt, count, -1))
  call('ZREMRANGEBYRANK', setAt, 0, -(count + 1))
end
