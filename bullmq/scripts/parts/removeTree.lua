--[[ Removing a job and its family.
     anyLocked:  is the job held by a worker, or, with children, one of those that haven't ended?
     removeTree: takes the job out of whatever state it is in, with all that belongs to it, its children first unless
                 keepChildren is set. how: {keepChildren, keepEnded: children that have ended stay, keepLocked: so do those
                 that run; places: where jobs stand in the lists, while many are removed}. Says removed on the queue of each.
                 Reports whether there was such a job.
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

-- Out of a list. An LREM for each of many jobs would search the list each time, so their places are read once: places[list].
-- A job that stands in no place may still have been put at the end, when the last of its children was removed.
local function leave(list, jobId, places, released)
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

local function pullOut(queue, jobId, places, released)
  local sets = { 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }
  for i = 1, #sets do
    if call('ZREM', queue .. sets[i], jobId) == 1 then return sets[i] end
  end
  local lists = { 'wait', 'paused' }
  for i = 1, #lists do
    if leave(queue .. lists[i], jobId, places, released) then return lists[i] end
  end
  return call('LREM', queue .. 'active', 1, jobId) == 1 and 'active' or 'unknown'
end

local removeTree
-- Reports whether the job had children.
local function removeChildren(jobKey, how)
  local had = false
  local function each(step, command, ...)
    local keys = orNothing(try(command, ...)) or {}
    local many = #keys > 100 * step and not how.places
    if many then how.places = {} end
    for i = 1, #keys, step do
      local queue, id = splitKey(keys[i])
      if id then removeTree(queue, id, jobKey, how) end
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

function removeTree(queue, jobId, parentKey, how)
  local jobKey = queue .. jobId
  if how.keepLocked and anyLocked(queue, jobId) then return end
  if how.keepEnded and call('ZSCORE', queue .. 'failed', jobId) then return end
  if parentKey then
    unlink(jobKey, parentKey, false)
  else
    unlinkFromParent(jobKey, false)
  end
  local released = not how.keepChildren and removeChildren(jobKey, how)
  local prev = pullOut(queue, jobId, how.places, released)
  freeDedup(queue, jobId, orNothing(try('HGET', jobKey, 'deid')))
  local existed = dropJob(jobKey) > 0
  if existed then
    call('XADD', queue .. 'events', 'MAXLEN', '~', cap(queue .. 'meta'), '*', 'event', 'removed', 'jobId', jobId, 'prev', prev)
  end
  return existed or prev ~= 'unknown'
end
