--[[ workerOf: who takes a job, from the arguments that every taking command has. ]]
--@use text
local function workerOf(token, lockMs, name, limitMax, limitMs)
  return {
    token = token, lockMs = lockMs, name = name or '',
    limitMax = given(limitMax) and limitMax or nil, limitMs = given(limitMs) and limitMs or nil,
  }
end
