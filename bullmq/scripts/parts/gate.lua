--[[ held: may no job start now? True when the queue is paused (meta.paused) or runs as many jobs
     as its global concurrency allows (meta.concurrency). Takes keys, for a parent may live in another queue. ]]
local function held(metaAt, activeAt)
  local set = call('HMGET', metaAt, 'paused', 'concurrency')
  if set[1] then return true end
  return set[2] and call('LLEN', activeAt) >= tonumber(set[2])
end
