--[[ serverTime: the server's time in microseconds; 0 where the user may not call TIME.
     withTime:   the answer of a take, with that time put behind where no job was taken. ]]
local function serverTime()
  local t = try('TIME')
  if t.err then return 0 end
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function withTime(taken)
  taken = taken or { {}, 0, 0 }
  if not taken[1][1] then taken[4] = serverTime() end
  return taken
end
