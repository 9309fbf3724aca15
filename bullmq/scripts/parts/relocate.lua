--[[ For a job that moves to another queue, or back.

     hasRunningChildren reports whether a job has a pending child that can still end by itself: the child has a hash and has
             not failed.
     checkRename raises an error if the user may not rename keys of a queue to those of another one. It is called before anything
             is changed, since an error later would leave a job in no state.
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

local function checkRename(from, to)
  local renamed = try('RENAME', from .. ':moved', to .. ':moved') -- no key has this name
  if renamed.err and not string.find(renamed.err, 'no such key', 1, true) then error(renamed.err, 0) end
end

local function relocateParts(fromKey, toKey)
  local parts = { ':logs', ':dependencies', ':processed', ':failed', ':unsuccessful' }
  for i = 1, #parts do
    if call('EXISTS', fromKey .. parts[i]) == 1 then call('RENAME', fromKey .. parts[i], toKey .. parts[i]) end
  end
end
