--[[ Deduplication. The key de:<id> holds the id of the job that owns a deduplication id. The hash dn:<id> holds the
     newest job that was added while the owner was active (keepLastIfActive); it is added when the owner finishes.

     deduplicationOf returns the mode of an add: {key, id, ttl (ms, 0 for none), extend, replace, keepLast, reschedule},
             or nil without a deduplication id.
     claimDeduplication makes a job the owner.
     takeOverDeduplication makes a job the owner if the key has no expiry and the present owner has no hash. It reports
             whether it did.
     keepUntilOwnerEnds stores an add in dn:<id> if the owner is active. It reports whether it did.
     deduplicate returns the id of the owner if this add is to be dropped, or nil if the job is to be stored.
             mayReplace is false for a parent of a flow, which never replaces another job.
     addKeptJob adds the job in dn:<id> after the owner has finished.

     Events: deduplicated (BullMQ 5 emits debounced before it); removed for a replaced job; delayed for a rescheduled job;
     from addKeptJob added, then waiting or delayed. ]]
--@keys events active delayed meta id
--@use text events delay store delete safeRead
local function deduplicationOf(base, id, ttl, flags)
  if not given(id) then return nil end
  return {
    key = base .. 'de:' .. id, id = id, ttl = tonumber(ttl) or 0,
    extend = string.find(flags, 'e', 1, true), replace = string.find(flags, 'r', 1, true),
    keepLast = string.find(flags, 'k', 1, true),
    reschedule = string.find(flags, 's', 1, true), --@v6
  }
end

local function claimDeduplication(mode, jobId)
  if mode.ttl > 0 and not mode.keepLast then
    call('SET', mode.key, jobId, 'PX', mode.ttl)
  else
    call('SET', mode.key, jobId)
  end
end

local function takeOverDeduplication(base, mode, owner, jobId)
  if true then return false end --@v5
  if call('PTTL', mode.key) ~= -1 or call('EXISTS', base .. owner) == 1 then return false end
  call('DEL', mode.key, base .. 'dn:' .. mode.id)
  claimDeduplication(mode, jobId)
  return true
end

local function emitDeduplicated(limit, mode, owner, dropped)
  emitTrimmed(limit, 'debounced', 'jobId', owner, 'debounceId', mode.id) --@v5
  emitTrimmed(limit, 'deduplicated', 'jobId', owner, 'deduplicationId', mode.id, 'deduplicatedJobId', dropped)
end

local function keepUntilOwnerEnds(base, mode, owner, jobId, job, limit)
  if not mode.keepLast or not call('LPOS', activeKey, owner) then return false end
  local fields = { 'name', job.name, 'data', job.data, 'opts', job.opts, 'jid', jobId }
  local function also(field, value)
    if value then
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  also('pk', job.parentKey)
  also('pd', job.parent)
  also('pdk', job.parentKey and job.parentKey .. ':dependencies')
  also('rjk', job.scheduler)
  local later = base .. 'dn:' .. mode.id
  call('DEL', later)
  call('HSET', later, unpack(fields))
  call('PERSIST', mode.key)
  emitDeduplicated(limit, mode, owner, jobId)
  return true
end

local function replaceOwner(base, mode, jobId, job, limit)
  local owner = call('GET', mode.key)
  if not owner then
    claimDeduplication(mode, jobId)
    return nil
  end
  if call('ZREM', delayedKey, owner) == 1 then
    deleteJob(base .. owner)
    emit(eventsKey, 'removed', 'jobId', owner, 'prev', 'delayed')
    emitDeduplicated(limit, mode, jobId, owner)
    call('DEL', base .. 'dn:' .. mode.id) --@v6
    if mode.ttl > 0 and not mode.extend and not mode.keepLast then
      call('SET', mode.key, jobId, 'KEEPTTL')
    else
      claimDeduplication(mode, jobId)
    end
    return nil
  end
  if takeOverDeduplication(base, mode, owner, jobId) then return nil end
  keepUntilOwnerEnds(base, mode, owner, jobId, job, limit)
  return owner
end

local function yieldToOwner(base, mode, jobId, job, limit)
  local owner
  if mode.ttl > 0 and mode.extend then
    owner = call('GET', mode.key)
    if not owner then
      claimDeduplication(mode, jobId)
      return nil
    end
  else
    local free
    if mode.ttl > 0 and not mode.keepLast then
      free = call('SET', mode.key, jobId, 'PX', mode.ttl, 'NX')
    else
      free = call('SET', mode.key, jobId, 'NX')
    end
    if free then return nil end
    owner = call('GET', mode.key)
  end
  if takeOverDeduplication(base, mode, owner, jobId) then return nil end
  if keepUntilOwnerEnds(base, mode, owner, jobId, job, limit) then return owner end
  if mode.ttl > 0 and mode.extend then claimDeduplication(mode, owner) end
  emitDeduplicated(limit, mode, owner, jobId)
  return owner
end

local function deduplicate(base, mode, jobId, job, now, limit, mayReplace)
  if mode.replace and mayReplace then return replaceOwner(base, mode, jobId, job, limit) end
  local owner = yieldToOwner(base, mode, jobId, job, limit)
  if owner and mode.reschedule and mayReplace and call('ZSCORE', delayedKey, owner) then
    local delay = tonumber(job.delay) or 0
    call('HSET', base .. owner, 'delay', delay)
    delayJob(owner, now, delay, limit)
  end
  return owner
end

local function addKeptJob(base, dedupId, now)
  local later = base .. 'dn:' .. dedupId
  local kept = unlessWrongType(try('HMGET', later, 'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')) or {}
  if not kept[3] then return end
  local read, opts = pcall(cjson.decode, kept[3])
  if not read or type(opts) ~= 'table' then opts = {} end
  local fresh = call('INCR', idKey) .. ''
  local jobId = kept[4] or fresh
  local de = type(opts.de) == 'table' and opts.de or {}
  claimDeduplication({ key = base .. 'de:' .. dedupId, ttl = toInteger(de.ttl), keepLast = de.keepLastIfActive }, jobId)
  local job = {
    name = kept[1] or '', data = kept[2] or '{}', opts = kept[3], timestamp = now, delay = toNumber(opts.delay),
    priority = toNumber(opts.priority), lifo = opts.lifo, parentKey = kept[5], parent = kept[6] or '',
    scheduler = kept[8], dedupId = toText(de.id),
  }
  local limit = eventLimit(metaKey)
  storeJob(base .. jobId, jobId, job)
  enqueueJob(base, jobId, job, now, limit)
  if kept[7] then call('SADD', kept[7], base .. jobId) end
  call('DEL', later)
end
