--[[ orText takes the results of pcall, of a step for one of several queues. It returns them, or false and the text of an
     error: that of a value in this queue that can't be processed. An error that concerns all queues is raised, such as OOM,
     READONLY or NOREPLICAS. With those the server refuses the first write of a script, so nothing was written before. ]]
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = type(result) == 'table' and result.err or result -- a table from Redis 7 on
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
