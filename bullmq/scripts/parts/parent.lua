--[[ A parent and its children. The parent is in waiting-children while <parent>:dependencies has members.

     toParent returns the field parent of a job, decoded: {id, queueKey, fpof?, cpof?, idof?, rdof?}.
     requeueParent moves a parent that has left waiting-children to delayed, prioritized, or the front of wait.
     releaseParent moves a parent out of waiting-children, if it is there, and requeues it.
     releaseParentIfReady does the same, but only if no child is pending.
     completeChild records the return value of a completed child in <parent>:processed.
     failChild records a failed child, by the policy in the field parent. With fpof the parent fails at its next start
             (defa). With cpof the parent runs now; with idof it runs once no child is pending. In both cases the reason is
             in <parent>:failed. With rdof the child is dropped. Without a policy the parent continues to wait.
     detachChild removes a child from the pending children. It reports whether the child was pending. If hard is set, as by
             clean, drain and obliterate, a parent of the same queue that has lost its last child is deleted too.

     Events: for the parent waiting or delayed. ]]
--@use text held marker events ready delete safeRead
local function requeueParent(queue, parentKey, parentId, now)
  local set = unlessWrongType(try('HMGET', parentKey, 'priority', 'delay')) or {}
  local delay = toNumber(set[2])
  if delay > 0 then
    local due = tonumber(now) + delay
    call('ZADD', queue .. 'delayed', due * 4096, parentId)
    emit(queue .. 'events', 'delayed', 'jobId', parentId, 'delay', due)
    signalDelayed(queue .. 'marker', queue .. 'delayed')
    return
  end
  makeReady(queue, parentId, toNumber(set[1]), 'RPUSH', isHeld(queue .. 'meta', queue .. 'active'))
  emit(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children')
end

local function releaseParent(queue, parentKey, parentId, now)
  if call('EXISTS', parentKey) == 1 and call('ZREM', queue .. 'waiting-children', parentId) == 1 then
    requeueParent(queue, parentKey, parentId, now)
  end
end

local function releaseParentIfReady(queue, parentKey, parentId, now)
  if call('SCARD', parentKey .. ':dependencies') == 0 then releaseParent(queue, parentKey, parentId, now) end
end

local function completeChild(queue, parentKey, parentId, childKey, value, now)
  call('HSET', parentKey .. ':processed', childKey, value)
  releaseParentIfReady(queue, parentKey, parentId, now)
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
  if waits then requeueParent(queue, parentKey, parentId, now) end
end

-- A field that can't be decoded is ignored. An error would leave the child half finished.
local function toParent(json)
  local read, parent = pcall(cjson.decode, json or '')
  if read and type(parent) == 'table' and type(parent.queueKey) == 'string' and type(parent.id) == 'string' then
    return parent
  end
end

local function failChild(parent, childKey, reason, now)
  if not (parent.fpof or parent.cpof or parent.idof or parent.rdof) then return end
  local queue, parentKey = parent.queueKey .. ':', parent.queueKey .. ':' .. parent.id
  if call('SREM', parentKey .. ':dependencies', childKey) == 0 then return end
  if parent.fpof then
    call('ZADD', parentKey .. ':unsuccessful', now, childKey)
    failParent(queue, parentKey, parent.id, childKey, now)
  elseif parent.cpof then
    call('HSET', parentKey .. ':failed', childKey, reason)
    releaseParent(queue, parentKey, parent.id, now)
  else
    releaseParentIfReady(queue, parentKey, parent.id, now)
    if parent.idof then call('HSET', parentKey .. ':failed', childKey, reason) end
  end
end

local detachChild
function detachChild(childKey, parentKey, hard, base, dedupId)
  if (unlessWrongType(try('SREM', parentKey .. ':dependencies', childKey)) or 0) == 0 then return false end
  if call('SCARD', parentKey .. ':dependencies') > 0 then return true end
  local queue, parentId = splitKey(parentKey)
  if not queue then return true end
  if call('ZREM', queue .. 'waiting-children', parentId) == 0 then return true end
  if hard and queue == base then
    local above = call('HMGET', parentKey, 'parentKey', 'deid')
    if above[1] and above[1] ~= '' and call('EXISTS', above[1]) == 1 then
      detachChild(parentKey, above[1], hard, base, above[2])
    end
    deleteJob(parentKey)
    if dedupId then call('DEL', queue .. 'de:' .. dedupId) end
    return true
  end
  makeReady(queue, parentId, 0, 'RPUSH', isHeld(queue .. 'meta', queue .. 'active'))
  if not hard then emit(queue .. 'events', 'waiting', 'jobId', parentId, 'prev', 'waiting-children') end
  return true
end
