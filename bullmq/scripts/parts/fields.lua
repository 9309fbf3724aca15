--[[ setFields: writes field, value, field, value … from ARGV[from] on into a job's hash; nothing when there are none. ]]
local function setFields(jobKey, from)
  if #ARGV > from then call('HSET', jobKey, unpack(ARGV, from)) end
end
