--[[ Runs of a scheduler with an interval. Times are in ms.

     toInterval returns a stored interval as a number, or nil if it is invalid.
     firstRun returns the first run: the start date, the next multiple of every shifted by offset, or now.
     nextRun returns the run after prev: prev + every or, if that has passed, the next multiple of every shifted by offset.
     offsetOf returns the offset with which later runs stay in step with the given run. ]]
local function toInterval(text)
  local every = tonumber(text)
  if every and every >= 1 and every <= 9007199254740991 then return every end
end

local function firstRun(every, now, offset, startDate)
  if startDate then return math.floor(math.max(startDate, now)) end
  if offset <= 0 then return math.floor(now) end
  local due = math.floor(now / every) * every + offset
  if due <= now then due = due + every end
  return math.floor(due)
end

local function nextRun(prev, every, now, offset)
  local due = prev + every
  if due < now then
    due = math.floor(now / every) * every + offset
    if due <= now then due = due + every end
  end
  return math.floor(due)
end

local function offsetOf(due, every, offset)
  if offset ~= 0 then return math.floor(offset) end
  return math.floor(due - math.floor(due / every) * every)
end
