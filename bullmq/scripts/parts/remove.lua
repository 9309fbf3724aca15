--[[ removeJob first removes the children of a job, and then the job, in any state, with all its keys. It reports whether the
             job existed.
             how: {keepChildren, keepEnded: keep finished children, keepLocked: keep locked children, places: indexes of the
             jobs in lists, set while many jobs are removed}.
     removeChildren removes only the children. It reports whether there were any.
     isLocked reports whether a worker holds the lock of a job or, withChildren, of a pending child.

     Events: removed for each, on its own queue; waiting for a parent that has lost its last child. ]]
--@use text parent discard delete events safeRead
local isLocked
function isLocked(queue, jobId, withChildren)
  if call('EXISTS', queue .. jobId .. ':lock') == 1 then return true end
  if withChildren then
    local pending = unlessWrongType(try('SMEMBERS', queue .. jobId .. ':dependencies')) or {}
    for i = 1, #pending do
      local childQueue, childId = splitKey(pending[i])
      if childId and isLocked(childQueue, childId, true) then return true end
    end
  end
  return false
end

-- LREM searches the whole list for each job. So for many jobs, the indexes of all jobs are read once, into places[list]. A
-- job that has no index there may have been added at the end of the list since then, by the removal of its last child.
local function removeFromList(list, jobId, places, released)
  if not places then return call('LREM', list, 1, jobId) == 1 end
  local placeOf = places[list]
  if not placeOf then
    placeOf = {}
    local ids = call('LRANGE', list, 0, -1)
    for i = #ids, 1, -1 do placeOf[ids[i]] = i - 1 end
    places[list] = placeOf
  end
  local place = placeOf[jobId]
  if not place then return released and call('LREM', list, -1, jobId) == 1 end
  placeOf[jobId] = nil
  call('LSET', list, place, '')
  return true
end

local function removeFromState(queue, jobId, places, released)
  local sets = { 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', queue .. sets[i], jobId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused' }
  for i = 1, #lists do
    if removeFromList(queue .. lists[i], jobId, places, released) then return lists[i] end
  end
  return call('LREM', queue .. 'active', 1, jobId) == 1 and 'active' or 'unknown'
end

local removeJob
local function removeChildren(jobKey, how)
  local had = false
  local function each(step, command, ...)
    local keys = unlessWrongType(try(command, ...)) or {}
    local many = #keys > 100 * step and not how.places
    if many then how.places = {} end
    for i = 1, #keys, step do
      local queue, id = splitKey(keys[i])
      if id then removeJob(queue, id, jobKey, how) end
    end
    if many then
      for list in pairs(how.places) do call('LREM', list, 0, '') end
      how.places = nil
    end
    had = had or #keys > 0
  end
  if not how.keepEnded then
    each(2, 'HGETALL', jobKey .. ':processed')
    each(2, 'HGETALL', jobKey .. ':failed')
    each(1, 'ZRANGE', jobKey .. ':unsuccessful', 0, -1)
  end
  each(1, 'SMEMBERS', jobKey .. ':dependencies')
  return had
end

function removeJob(queue, jobId, parentKey, how)
  local jobKey = queue .. jobId
  if how.keepLocked and isLocked(queue, jobId) then return end
  if how.keepEnded and call('ZSCORE', queue .. 'failed', jobId) then return end
  if parentKey then
    detachChild(jobKey, parentKey, false)
  else
    detachFromParent(jobKey, false)
  end
  local released = not how.keepChildren and removeChildren(jobKey, how)
  local prev = removeFromState(queue, jobId, how.places, released)
  freeDeduplication(queue, jobId, unlessWrongType(try('HGET', jobKey, 'deid')))
  local existed = deleteJob(jobKey) > 0
  if existed then
    call('XADD', queue .. 'events', 'MAXLEN', '~', eventLimit(queue .. 'meta'), '*', 'event', 'removed', 'jobId', jobId,
      'prev', prev)
  end
  return existed or prev ~= 'unknown'
end
