--[[ The events stream.
     say:       one entry, in the order given: event, jobId, then the rest.
     sayTrimmed: the same, and trims the stream to about its cap.
     cap:       the stream's cap from meta (opts.maxLenEvents), written there as 10000 when it is missing or no number.
     capOf:     the same, from what has been read. ]]
--@keys events meta
local function capOf(metaAt, kept)
  if kept and string.find(kept, '^%d+$') then return kept end
  call('HSET', metaAt, 'opts.maxLenEvents', '10000')
  return '10000'
end

local function cap(metaAt)
  return capOf(metaAt, call('HGET', metaAt, 'opts.maxLenEvents'))
end

local function say(stream, event, ...)
  call('XADD', stream, '*', 'event', event, ...)
end

local function sayTrimmed(limit, event, ...)
  call('XADD', eventsKey, 'MAXLEN', '~', limit, '*', 'event', event, ...)
end

local function trim()
  call('XTRIM', eventsKey, 'MAXLEN', '~', cap(metaKey))
end
