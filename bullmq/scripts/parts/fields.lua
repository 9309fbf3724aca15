--[[ setFields: writes field, value, field, value … from ARGV[from] to ARGV[to] into a job's hash; nothing when there are none. ]]
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
end
