--[[ A parent and its children. The parent stands in waiting-children while <parent>:dependencies has members.

     putBack:      sends a parent that has left waiting-children on its way: delayed, prioritized, or next in wait.
     letGo:        takes it out of waiting-children first; nothing happens when it isn't there.
     letGoIfLast:  the same, once no child is pending.
     childDone:    a child completed: its value goes to <parent>:processed.
     childFailed:  a child failed for good. What its parent JSON says decides:
                   fpof the parent fails at its next start (defa), cpof it runs now, idof it runs when no child is
                   pending, both with the reason in <parent>:failed; rdof the child is forgotten; none: the parent waits on.
     parentOf:     the parent field of a job, decoded: {id, queueKey, fpof?, cpof?, idof?, rdof?}.
     unlink:       a child is removed. hard is for clean-ups: a parent of the same queue that has lost its last child goes too. ]]
--@use text gate marker events ready drop sound
local function putBack(queue, parentKey, parentId, now)
  local set = orNothing(try('HMGET', parentKey, 'priority', 'delay')) or {}
  local delay = numberOf(set[2])
  if delay > 0 then
    local due = tonumber(now) + delay
    call('ZADD', queue .. 'delayed', due * 4096, parentId)
    say(queue .. 'events', 'delayed', 'jobId', parentId, 'delay', due)
    wakeAt(queue .. 'marker', queue .. 'delayed')
    return
  end
  ready(queue, parentId, numberOf(set[1]), 'RPUSH', held(queue .. 'meta', queue .. 'active'))
  say(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children')
end

local function letGo(queue, parentKey, parentId, now)
  if call('EXISTS', parentKey) == 1 and call('ZREM', queue .. 'waiting-children', parentId) == 1 then
    putBack(queue, parentKey, parentId, now)
  end
end

local function letGoIfLast(queue, parentKey, parentId, now)
  if call('SCARD', parentKey .. ':dependencies') == 0 then letGo(queue, parentKey, parentId, now) end
end

local function childDone(queue, parentKey, parentId, childKey, value, now)
  call('HSET', parentKey .. ':processed', childKey, value)
  letGoIfLast(queue, parentKey, parentId, now)
end

local function failParent(queue, parentKey, parentId, childKey, now)
  if call('EXISTS', parentKey) == 0 then return end
  local waits = call('ZREM', queue .. 'waiting-children', parentId) == 1
  if not waits and call('ZREM', queue .. 'delayed', parentId) == 1 then
    call('HSET', parentKey, 'delay', 0)
    waits = true
  end
  if waits or not call('ZSCORE', queue .. 'failed', parentId) then
    call('HSET', parentKey, 'defa', 'child ' .. childKey .. ' failed')
  end
  if waits then putBack(queue, parentKey, parentId, now) end
end

-- A parent field that can't be read counts as none: an error here would leave the child's end half written.
local function parentOf(json)
  local read, parent = pcall(cjson.decode, json or '')
  if read and type(parent) == 'table' and type(parent.queueKey) == 'string' and type(parent.id) == 'string' then
    return parent
  end
end

local function childFailed(parent, childKey, reason, now)
  if not (parent.fpof or parent.cpof or parent.idof or parent.rdof) then return end
  local queue, parentKey = parent.queueKey .. ':', parent.queueKey .. ':' .. parent.id
  if call('SREM', parentKey .. ':dependencies', childKey) == 0 then return end
  if parent.fpof then
    call('ZADD', parentKey .. ':unsuccessful', now, childKey)
    failParent(queue, parentKey, parent.id, childKey, now)
  elseif parent.cpof then
    call('HSET', parentKey .. ':failed', childKey, reason)
    letGo(queue, parentKey, parent.id, now)
  else
    letGoIfLast(queue, parentKey, parent.id, now)
    if parent.idof then call('HSET', parentKey .. ':failed', childKey, reason) end
  end
end

-- Answers whether the child was among the pending ones.
local unlink
function unlink(childKey, parentKey, hard, base, dedupId)
  if (orNothing(try('SREM', parentKey .. ':dependencies', childKey)) or 0) == 0 then return false end
  if call('SCARD', parentKey .. ':dependencies') > 0 then return true end
  local queue, parentId = splitKey(parentKey)
  if not queue then return true end
  if call('ZREM', queue .. 'waiting-children', parentId) == 0 then return true end
  if hard and queue == base then
    local above = call('HMGET', parentKey, 'parentKey', 'deid')
    if above[1] and above[1] ~= '' and call('EXISTS', above[1]) == 1 then
      unlink(parentKey, above[1], hard, base, above[2])
    end
    dropJob(parentKey)
    if dedupId then call('DEL', queue .. 'de:' .. dedupId) end
    return true
  end
  ready(queue, parentId, 0, 'RPUSH', held(queue .. 'meta', queue .. 'active'))
  if not hard then say(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children') end
  return true
end
