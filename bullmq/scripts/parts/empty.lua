--[[ Emptying the list or sorted set of a state.

     emptyList and emptySet examine at most max jobs, and discard those that are not in spared. Both return the number of
     discarded jobs.
     removeIds only removes ids from a sorted set. ]]
--@use discard
local function discardExcept(base, ids, spared)
  local kept, gone = {}, 0
  for i = 1, #ids do
    if spared and spared[ids[i]] then
      kept[#kept + 1] = ids[i]
    else
      discardJob(base, ids[i])
      gone = gone + 1
    end
  end
  return kept, gone
end

local function emptyList(base, at, max, spared)
  local ids = call('LRANGE', at, 0, max - 1)
  local kept, gone = discardExcept(base, ids, spared)
  call('LTRIM', at, #ids, -1)
  for i = #kept, 1, -1 do call('LPUSH', at, kept[i]) end
  return gone
end

local function removeIds(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end

local function emptySet(base, at, max, spared)
  local ids = call('ZRANGE', at, 0, max - 1)
  local _, gone = discardExcept(base, ids, spared)
  if not spared then
    removeIds(at, ids)
  else
    for i = 1, #ids do
      if not spared[ids[i]] then call('ZREM', at, ids[i]) end
    end
  end
  return gone
end
