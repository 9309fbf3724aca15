--[[ discardJob deletes a job, detaches it from its parent and frees its deduplication id. Its id stays in the list or
     set of its state, and no event is emitted.

     detachFromParent removes a job from the pending children of its parent. It returns the deduplication id of the job.
     freeDeduplication deletes a deduplication id, if the job owns it. ]]
--@use text parent delete safeRead
local function detachFromParent(jobKey, hard, base)
  local link = unlessWrongType(try('HMGET', jobKey, 'parentKey', 'deid')) or {}
  if link[1] and link[1] ~= '' and call('EXISTS', link[1]) == 1 then
    detachChild(jobKey, link[1], hard, base, link[2])
  end
  return link[2]
end

local function freeDeduplication(base, jobId, dedupId)
  if dedupId and call('GET', base .. 'de:' .. dedupId) == jobId then
    call('DEL', base .. 'de:' .. dedupId, base .. 'dn:' .. dedupId)
  end
end

local function discardJob(base, jobId)
  local dedupId = detachFromParent(base .. jobId, true, base)
  freeDeduplication(base, jobId, dedupId)
  deleteJob(base .. jobId)
end
