--[[ removeFinished: takes a job's keys away together with its place among its parent's children.
     freeDedup:      gives a removed job's deduplication id back, if it still owns it. ]]
--@use text parent drop
local function unlinkFromParent(jobKey, hard, base)
  local link = call('HMGET', jobKey, 'parentKey', 'deid')
  if link[1] and link[1] ~= '' and call('EXISTS', link[1]) == 1 then
    unlink(jobKey, link[1], hard, base, link[2])
  end
end

local function freeDedup(base, jobId, dedupId)
  if dedupId and call('GET', base .. 'de:' .. dedupId) == jobId then
    call('DEL', base .. 'de:' .. dedupId, base .. 'dn:' .. dedupId)
    return 1
  end
end
