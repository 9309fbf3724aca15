--[[ Slots of a scheduler with an interval.
     firstSlot: when it runs first: at its start date, at the next multiple of every shifted by offset, or now.
     nextSlot:  when it runs after prev: prev + every or, where that has passed, the next such multiple.
     shiftOf:   the offset that keeps later slots in step with this one.
     intervalOf: an interval as it is stored; nil where it can be none. ]]
local function intervalOf(text)
  local every = tonumber(text)
  if every and every >= 1 and every <= 9007199254740991 then return every end
end

local function firstSlot(every, now, offset, startDate)
  if startDate then return math.floor(math.max(startDate, now)) end
  if offset <= 0 then return math.floor(now) end
  local due = math.floor(now / every) * every + offset
  if due <= now then due = due + every end
  return math.floor(due)
end

local function nextSlot(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
end

local function shiftOf(due, every, offset)
  if offset ~= 0 then return math.floor(offset) end
  return math.floor(due - math.floor(due / every) * every)
end
