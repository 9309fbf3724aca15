--[[ The events stream.
     say:       one entry, in the order given: event, jobId, then the rest.
     sayTrimmed: the same, and trims the stream to about its cap.
     cap:       the stream's cap from meta (opts.maxLenEvents), written there as 10000 when missing. ]]
--@keys events meta
local function cap(metaAt)
  local kept = call('HGET', metaAt, 'opts.maxLenEvents')
  if not kept then
    kept = 10000
    call('HSET', metaAt, 'opts.maxLenEvents', kept)
  end
  return kept
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
