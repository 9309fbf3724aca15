--[[ Reading what anybody may have written, so that it can't stop a command halfway.
     orNothing:  the answer of a try (redis.pcall); nil where the key holds something of another kind. Other errors stay errors.
     numberOf:   the number that a text spells; 0 for what spells none, and for NaN.
     wholeOf:    the same as a whole number, no larger than JavaScript counts.
     textOf:     a text or a number of decoded JSON; nil for anything else.
     priorityOf: a job's priority; 0 too where its key holds no hash. ]]
local function orNothing(answer)
  local err = type(answer) == 'table' and answer.err
  if not err then return answer end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end

local function numberOf(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end

local function wholeOf(text)
  return math.floor(math.max(math.min(numberOf(text), 9007199254740991), -9007199254740991))
end

local function textOf(value)
  if type(value) == 'string' or type(value) == 'number' then return value end
end

local function priorityOf(jobKey)
  return numberOf(orNothing(try('HGET', jobKey, 'priority')))
end
