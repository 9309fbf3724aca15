--[[ nextSlot: when a scheduler with an interval runs after prev: prev + every or, where that has passed, the next
     multiple of every, shifted by offset. ]]
local function nextSlot(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
end
