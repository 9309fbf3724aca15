-- Composed from addLog.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local base = ARGV[1]
local jobId = ARGV[2]
local row = ARGV[3]
local keep = ARGV[4]
local function given(argument)
  return argument ~= nil and argument ~= ''
end
local jobKey = base .. jobId
if call('EXISTS', jobKey) == 0 then return -1 end
local rows = call('RPUSH', jobKey .. ':logs', row)
if not given(keep) then return rows end
call('LTRIM', jobKey .. ':logs', -tonumber(keep), -1)
return math.min(tonumber(keep), rows)
