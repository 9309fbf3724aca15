--[[ For a job that moves to another queue, or back.

     hasRunningChildren reports whether a job has a pending child that can still end by itself: the child has a hash and has
             not failed.
     relocateParts renames the other keys of a job besides its hash: its logs and the records of its children. ]]
--@use text safeRead
local function hasRunningChildren(jobKey)
  local pending = unlessWrongType(try('SMEMBERS', jobKey .. ':dependencies')) or {}
  for i = 1, #pending do
    local queue, id = splitKey(pending[i])
    if queue and call('EXISTS', pending[i]) == 1 and not unlessWrongType(try('ZSCORE', queue .. 'failed', id)) then
      return true
    end
  end
  return false
end

local function relocateParts(fromKey, toKey)
  local parts = { ':logs', ':dependencies', ':processed', ':failed', ':unsuccessful' }
  for i = 1, #parts do
    if call('EXISTS', fromKey .. parts[i]) == 1 then call('RENAME', fromKey .. parts[i], toKey .. parts[i]) end
  end
end
