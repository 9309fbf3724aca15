--[[ The ids of dead letters.

     letterIdOf returns the id of the nth letter of a job. The id has no colons. A new letter gets the first id that is free. ]]
local function letterIdOf(queueKey, jobId, n)
  local id = string.match(queueKey, '[^:]*$') .. '-' .. string.gsub(jobId, ':', '_')
  if n > 1 then id = id .. '-' .. n end
  return id
end
