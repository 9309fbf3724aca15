--[[ The events stream.

     emit adds an entry: event, jobId, then other fields, in the given order.
     emitTrimmed does the same and trims the stream to about limit entries.
     trimEvents trims the stream to about its limit.
     eventLimit returns the limit, opts.maxLenEvents of meta. A limit that is missing or not a number is set to 10000.
     eventLimitOf does the same for a value of that field that was read before. ]]
--@keys events meta
local function eventLimitOf(metaAt, kept)
  if kept == '10000' or kept and string.find(kept, '^%d+$') then return kept end -- mostly the default
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end

local function eventLimit(metaAt)
  return eventLimitOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end

local function emit(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end

local function emitTrimmed(limit, event, ...)
  call('XADD', eventsKey, 'MAXLEN', '~', limit, '*', 'event', event, ...)
end

local function trimEvents()
  call('XTRIM', eventsKey, 'MAXLEN', '~', eventLimit(metaKey))
end
