--[[ lastEvents: finds the last event of several queues. It writes nothing.

     Arguments: none.
     Returns: for each queue a list with the id of its last event, '0-0' if it has none, or a text if its events can't be
     read. ]]
--@queues
--@use perQueue
local all = {}
for n = 1, #queues - 1 do
  local fine, found = orText(pcall(call, 'XREVRANGE', queues[n] .. 'events', '+', '-', 'COUNT', 1))
  if fine then found = { found[1] and found[1][1] or '0-0' } end
  all[n] = found
end
return all
