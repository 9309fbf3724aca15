--[[ repend makes a finished child pending again, because it will run again. state is its former state. Nothing happens if the
     parent no longer exists. If the parent no longer waits for its children, it does not start to wait again. ]]
--@use safeRead
local function repend(jobKey, state)
  local parentKey = unlessWrongType(try('HGET', jobKey, 'parentKey'))
  if not parentKey or call('EXISTS', parentKey) == 0 then return end
  local gone
  if state == 'failed' then
    gone = call('ZREM', parentKey .. ':unsuccessful', jobKey) == 1 or call('HDEL', parentKey .. ':failed', jobKey) == 1
  else
    gone = call('HDEL', parentKey .. ':processed', jobKey) == 1
  end
  if gone then call('SADD', parentKey .. ':dependencies', jobKey) end
end
