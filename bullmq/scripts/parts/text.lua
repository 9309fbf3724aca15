--[[ given reports whether an argument has a value. An argument without a value is empty, or omitted at the end.
     splitKey returns the prefix of the queue (with its last colon) and the id in the key of a job. ]]
local function given(argument)
  return argument ~= nil and argument ~= ''
end

local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
