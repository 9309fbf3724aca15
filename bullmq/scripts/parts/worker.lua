--[[ workerOf: who takes jobs, from the arguments that every taking command has. ]]
--@use text
local function workerOf(lockMs, name, limitMax, limitMs)
  return {
    lockMs = lockMs, name = name or '',
    limitMax = given(limitMax) and limitMax or nil, limitMs = given(limitMs) and limitMs or nil,
  }
end
