--[[ setFields sets field, value, field, value … from ARGV[from] to ARGV[to] in the hash of a job. ]]
local function setFields(jobKey, from, to)
  if to > from then call('HSET', jobKey, unpack(ARGV, from, to)) end
end
