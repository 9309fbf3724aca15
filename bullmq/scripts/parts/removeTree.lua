--[[ Removing a job and its family.
     anyLocked:  is the job held by a worker, or, with children, one of those that haven't ended?
     removeTree: takes the job out of whatever state it is in, with all that belongs to it, its children first unless
                 keepChildren is set. how: {keepChildren, keepEnded: children that have ended stay, keepLocked: so do those
                 that run}. Says removed on the queue of each.
     removeChildren: the children alone. ]]
--@use text parent remove drop events sound
local anyLocked
function anyLocked(queue, jobId, withChildren)
  if call('EXISTS', queue .. jobId .. ':lock') == 1 then return true end
  if withChildren then
    local pending = orNothing(try('SMEMBERS', queue .. jobId .. ':dependencies')) or {}
    for i = 1, #pending do
      local childQueue, childId = splitKey(pending[i])
      if childId and anyLocked(childQueue, childId, true) then return true end
    end
  end
  return false
end

local function pullOut(queue, jobId)
  local sets = { 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', queue .. sets[i], jobId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused', 'active' }
  for i = 1, #lists do
    if call('LREM', queue .. lists[i], 1, jobId) == 1 then return lists[i] end
  end
  return 'unknown'
end

local removeTree
local function removeChildren(jobKey, how)
  local function each(step, command, ...)
    local keys = orNothing(try(command, ...)) or {}
    for i = 1, #keys, step do
      local queue, id = splitKey(keys[i])
      if id then removeTree(queue, id, jobKey, how) end
    end
  end
  if not how.keepEnded then
    each(2, 'HGETALL', jobKey .. ':processed')
    each(2, 'HGETALL', jobKey .. ':failed')
    each(1, 'ZRANGE', jobKey .. ':unsuccessful', 0, -1)
  end
  each(1, 'SMEMBERS', jobKey .. ':dependencies')
end

function removeTree(queue, jobId, parentKey, how)
  local jobKey = queue .. jobId
  if how.keepLocked and anyLocked(queue, jobId) then return end
  if how.keepEnded and call('ZSCORE', queue .. 'failed', jobId) then return end
  if parentKey then
    unlink(jobKey, parentKey, false)
  else
    unlinkFromParent(jobKey, false)
  end
  if not how.keepChildren then removeChildren(jobKey, how) end
  local prev = pullOut(queue, jobId)
  freeDedup(queue, jobId, orNothing(try('HGET', jobKey, 'deid')))
  if dropJob(jobKey) > 0 then
    call('XADD', queue .. 'events', 'MAXLEN', '~', cap(queue .. 'meta'), '*', 'event', 'removed', 'jobId', jobId, 'prev', prev)
  end
end
