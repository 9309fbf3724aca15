--[[ Emptying whole states, at most max jobs of each (0 for all); ids in spared stay, in their order. Each answers how many
     jobs went. ]]
--@use remove
local function discardBut(base, ids, spared)
  local kept, gone = {}, 0
  for i = 1, #ids do
    if spared and spared[ids[i]] then
      kept[#kept + 1] = ids[i]
    else
      discard(base, ids[i])
      gone = gone + 1
    end
  end
  return kept, gone
end

local function sweepList(base, at, max, spared)
  local ids = call('LRANGE', at, 0, max - 1)
  local kept, gone = discardBut(base, ids, spared)
  call('LTRIM', at, #ids, -1)
  for i = #kept, 1, -1 do call('LPUSH', at, kept[i]) end
  return gone
end

local function forget(at, ids)
  for from = 1, #ids, 7000 do
    call('ZREM', at, unpack(ids, from, math.min(from + 6999, #ids)))
  end
end

local function sweepSet(base, at, max, spared)
  local ids = call('ZRANGE', at, 0, max - 1)
  local _, gone = discardBut(base, ids, spared)
  if not spared then
    forget(at, ids)
  else
    for i = 1, #ids do
      if not spared[ids[i]] then call('ZREM', at, ids[i]) end
    end
  end
  return gone
end
