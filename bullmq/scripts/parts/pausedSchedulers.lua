--[[ Schedulers that are paused are stored beside the queue, in a hash: id to JSON, a list of the time of the next job and the
     time of the pause (ms), and of the fields and values of the record.

     pausedSchedulers returns the key of the hash.
     forgetPaused removes a scheduler from it, and reports whether it was there. The client may not be allowed to. ]]
local function pausedSchedulers(base)
  return string.sub(base, 1, -2) .. '@x:paused-schedulers'
end

local function forgetPaused(base, scheduler)
  return try('HDEL', pausedSchedulers(base), scheduler) == 1
end
