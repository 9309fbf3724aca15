--[[ getJob: returns a job and its state, as of one moment.

     Arguments: base, jobId, position ('1' to return the id of the last event too).
     Returns: {state, hash, id}: the state as of getState; unknown and an empty hash if there is no such job. The id is that of
     the last entry of the events stream, '0-0' if it has none. ]]
--@args base jobId position
--@keys events
--@use state safeRead
local last = '0-0'
if position == '1' then
  local entries = call('XREVRANGE', eventsKey, '+', '-', 'COUNT', 1)
  if entries[1] then last = entries[1][1] end
end
return { stateOf(jobId), unlessWrongType(try('HGETALL', base .. jobId)) or {}, last }
