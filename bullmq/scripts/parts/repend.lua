--[[ repend makes a child that had finished a pending one again, since it is to run again. state is the one that it
     finished in. Nothing happens if the parent is gone. A parent that no longer waits does not wait again. ]]
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
