--[[ orText takes the results of pcall, for a step that concerns one of several queues. It returns these results. If the step
     failed because of a value in the queue that can't be processed, it returns false and the text of the error. An error
     that concerns all queues, such as OOM, READONLY or NOREPLICAS, is raised. With such an error the server refuses the
     first write of a script, so nothing was written before.
     errorText returns the text of an error that pcall has returned. ]]
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end

local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
