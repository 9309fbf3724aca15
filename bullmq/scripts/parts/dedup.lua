--[[ Deduplication. de:<id> names the job that owns the id; dn:<id> keeps the newest add that came while the
     owner was running (keepLastIfActive), to be queued when the owner ends.

     mode: {key, id, ttl (ms, 0 without), extend, replace, keepLast, reschedule}

     claim:        the id belongs to this job from now on.
     takeOver:     the owner is gone without a trace (no expiry on the key, no hash): claim it. true if so.
     keepForLater: the owner is running: keep this add in dn. true if so.
     ownerOf:      the owner's id when this add is to be dropped in its favour; nil when it is to be stored.
                   mayReplace is false for parents of a flow, which replace nobody.
     requeue:      at the end of an owner, queues what keepForLater kept. ]]
--@keys events active delayed meta id
--@use text events delay store drop sound
local function dedupMode(base, id, ttl, flags)
  if not given(id) then return nil end
  return {
    key = base .. 'de:' .. id, id = id, ttl = tonumber(ttl) or 0,
    extend = string.find(flags, 'e', 1, true), replace = string.find(flags, 'r', 1, true),
    keepLast = string.find(flags, 'k', 1, true),
    reschedule = string.find(flags, 's', 1, true), --@v6
  }
end

local function claim(mode, jobId)
  if mode.ttl > 0 and not mode.keepLast then
    call('SET', mode.key, jobId, 'PX', mode.ttl)
  else
    call('SET', mode.key, jobId)
  end
end

local function takeOver(base, mode, owner, jobId)
  if true then return false end --@v5
  if call('PTTL', mode.key) ~= -1 or call('EXISTS', base .. owner) == 1 then return false end
  call('DEL', mode.key, base .. 'dn:' .. mode.id)
  claim(mode, jobId)
  return true
end

local function sayDropped(limit, mode, owner, dropped)
  sayTrimmed(limit, 'debounced', 'jobId', owner, 'debounceId', mode.id) --@v5
  sayTrimmed(limit, 'deduplicated', 'jobId', owner, 'deduplicationId', mode.id, 'deduplicatedJobId', dropped)
end

local function keepForLater(base, mode, owner, jobId, job, limit)
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
  sayDropped(limit, mode, owner, jobId)
  return true
end

local function replaceOwner(base, mode, jobId, job, limit)
  local owner = call('GET', mode.key)
  if not owner then
    claim(mode, jobId)
    return nil
  end
  if call('ZREM', delayedKey, owner) == 1 then
    dropJob(base .. owner)
    say(eventsKey, 'removed', 'jobId', owner, 'prev', 'delayed')
    sayDropped(limit, mode, jobId, owner)
    call('DEL', base .. 'dn:' .. mode.id) --@v6
    if mode.ttl > 0 and not mode.extend and not mode.keepLast then
      call('SET', mode.key, jobId, 'KEEPTTL')
    else
      claim(mode, jobId)
    end
    return nil
  end
  if takeOver(base, mode, owner, jobId) then return nil end
  keepForLater(base, mode, owner, jobId, job, limit)
  return owner
end

local function yieldToOwner(base, mode, jobId, job, limit)
  local owner
  if mode.ttl > 0 and mode.extend then
    owner = call('GET', mode.key)
    if not owner then
      claim(mode, jobId)
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
  if takeOver(base, mode, owner, jobId) then return nil end
  if keepForLater(base, mode, owner, jobId, job, limit) then return owner end
  if mode.ttl > 0 and mode.extend then claim(mode, owner) end
  sayDropped(limit, mode, owner, jobId)
  return owner
end

local function ownerOf(base, mode, jobId, job, now, limit, mayReplace)
  if mode.replace and mayReplace then return replaceOwner(base, mode, jobId, job, limit) end
  local owner = yieldToOwner(base, mode, jobId, job, limit)
  if owner and mode.reschedule and mayReplace and call('ZSCORE', delayedKey, owner) then
    local delay = tonumber(job.delay) or 0
    call('HSET', base .. owner, 'delay', delay)
    delayJob(owner, now, delay, limit)
  end
  return owner
end

local function requeue(base, dedupId, now)
  local later = base .. 'dn:' .. dedupId
  local kept = orNothing(try('HMGET', later, 'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')) or {}
  if not kept[3] then return end
  local read, opts = pcall(cjson.decode, kept[3])
  if not read or type(opts) ~= 'table' then opts = {} end
  local fresh = call('INCR', idKey) .. ''
  local jobId = kept[4] or fresh
  local de = type(opts.de) == 'table' and opts.de or {}
  claim({ key = base .. 'de:' .. dedupId, ttl = wholeOf(de.ttl), keepLast = de.keepLastIfActive }, jobId)
  local job = {
    name = kept[1] or '', data = kept[2] or '{}', opts = kept[3], timestamp = now, delay = numberOf(opts.delay),
    priority = numberOf(opts.priority), lifo = opts.lifo, parentKey = kept[5], parent = kept[6] or '',
    scheduler = kept[8], dedupId = textOf(de.id),
  }
  local limit = cap(metaKey)
  store(base .. jobId, jobId, job)
  enqueue(base, jobId, job, now, limit)
  if kept[7] then call('SADD', kept[7], base .. jobId) end
  call('DEL', later)
end
