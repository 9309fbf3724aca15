--[[ removeDeduplicationKey: frees a deduplication id, if that job owns it.

     Arguments: base, dedupId, jobId.
     Answer: 1 freed, 0 it isn't that job's. ]]
--@args base dedupId jobId
local at = base .. 'de:' .. dedupId
if call('GET', at) ~= jobId then return 0 end
return call('DEL', at)
