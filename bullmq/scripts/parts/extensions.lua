--[[ deleteExtensions deletes what this SDK stores beside a queue: registrations of workers, cancellations
     and paused schedulers. The client may
     not be allowed to touch them. ]]
local function deleteExtensions(base)
  local extension = string.sub(base, 1, -2) .. '@x:'
  try('DEL', extension .. 'events')
  try('DEL', extension .. 'paused-schedulers')
  local workers, own = try('ZRANGE', extension .. 'workers', 0, -1), extension .. 'worker:'
  for i = 1, #workers do
    if string.sub(workers[i], 1, #own) == own then try('DEL', workers[i]) end
  end
  try('DEL', extension .. 'workers')
end
