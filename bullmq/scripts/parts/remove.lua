--[[ Taking jobs away.
     unlinkFromParent: a job leaves its parent's pending children, if it has a parent that is still there.
     freeDedup:        gives a removed job's deduplication id back, if it still owns it.
     discard:          all of a job but its place in a list or set: for clean-ups, which say nothing. ]]
--@use text parent drop sound
local function unlinkFromParent(jobKey, hard, base)
  local link = orNothing(try('HMGET', jobKey, 'parentKey', 'deid')) or {}
  if link[1] and link[1] ~= '' and call('EXISTS', link[1]) == 1 then
    unlink(jobKey, link[1], hard, base, link[2])
  end
  return link[2]
end

local function freeDedup(base, jobId, dedupId)
  if dedupId and call('GET', base .. 'de:' .. dedupId) == jobId then
    call('DEL', base .. 'de:' .. dedupId, base .. 'dn:' .. dedupId)
  end
end

local function discard(base, jobId)
  local dedupId = unlinkFromParent(base .. jobId, true, base)
  freeDedup(base, jobId, dedupId)
  dropJob(base .. jobId)
end
