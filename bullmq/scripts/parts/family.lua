--[[ pendAgain: a child that had ended, in that state, is to run again: its parent, if it is still there, counts it among
     the pending ones. A parent that no longer waits does not wait again. ]]
--@use sound
local function pendAgain(jobKey, state)
  local parentKey = orNothing(try('HGET', jobKey, 'parentKey'))
  if not parentKey or call('EXISTS', parentKey) == 0 then return end
  local gone
  if state == 'failed' then
    gone = call('ZREM', parentKey .. ':unsuccessful', jobKey) == 1 or call('HDEL', parentKey .. ':failed', jobKey) == 1
  else
    gone = call('HDEL', parentKey .. ':processed', jobKey) == 1
  end
  if gone then call('SADD', parentKey .. ':dependencies', jobKey) end
end
