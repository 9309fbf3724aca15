--[[ given: is an argument there? Trailing arguments may be left out, others are sent empty.
     splitKey: a job's key into its queue's prefix (with the last colon) and its id. ]]
local function given(argument)
  return argument ~= nil and argument ~= ''
end

local function splitKey(jobKey)
  return string.match(jobKey, '^(.*:)([^:]*)$')
end
