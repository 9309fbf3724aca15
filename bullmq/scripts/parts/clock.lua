--[[ serverTime returns the time of the server in microseconds, or 0 if the user may not call TIME.
     withServerTime appends the server's time to the reply of a fetch that found no job. ]]
local function serverTime()
  local t = try('TIME')
  if t.err then return 0 end
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function withServerTime(taken)
  taken = taken or { {}, 0, 0 }
  if not taken[1][1] then taken[4] = serverTime() end
  return taken
end
