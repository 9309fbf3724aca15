--[[ Reading values that any client may have written, without errors that would stop a command halfway.

     unlessWrongType returns the reply of try (redis.pcall), or nil if the key has another type. Other errors are raised.
     toNumber returns a number; 0 for other text and for NaN.
     toInteger returns a whole number, limited to the safe integers of JavaScript.
     toText returns a text or number of decoded JSON; nil for anything else.
     priorityOf returns the priority of a job; 0 if its key is not a hash. ]]
local function unlessWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if not err then return reply end
  if string.find(err, 'WRONGTYPE', 1, true) then return nil end
  error(err, 0)
end

local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end

local function toInteger(text)
  return math.floor(math.max(math.min(toNumber(text), 9007199254740991), -9007199254740991))
end

local function toText(value)
  if type(value) == 'string' or type(value) == 'number' then return value end
end

local function priorityOf(jobKey)
  return toNumber(unlessWrongType(try('HGET', jobKey, 'priority')))
end
