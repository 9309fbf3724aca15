--[[ removeDeduplicationKey: frees a deduplication id, if the job owns it.

     Arguments: base, dedupId, jobId.
     Returns: 1 if freed, else 0. ]]
--@args base dedupId jobId
local at = base .. 'de:' .. dedupId
if call('GET', at) ~= jobId then return 0 end
return call('DEL', at)
