--[[ workerOptions returns the options of the worker for a fetch, from the arguments that every fetching command has. ]]
--@use text
local function workerOptions(lockMs, name, limitMax, limitMs)
  return {
    lockMs = lockMs, name = name or '',
    limitMax = given(limitMax) and limitMax or nil, limitMs = given(limitMs) and limitMs or nil,
  }
end
