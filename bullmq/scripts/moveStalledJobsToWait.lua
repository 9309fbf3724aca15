--[[ moveStalledJobsToWait: finds jobs whose worker is gone. Every id that stands in active is marked (set stalled) and
     cleared by each renewal of its lock; what is still marked at the next check and has no lock goes back to wait.
     One check within checkMs, whoever makes it.

     Arguments: base, now (ms), maxStalled, checkMs.
     Answer: ids that went back. A job that stalled more often than maxStalled carries defa and fails at its next start,
     unless a live scheduler makes it.
     Events: waiting and stalled for each. ]]
--@args base now maxStalled checkMs
--@keys stalled active stalled-check meta events repeat
--@use events gate ready sound
if call('EXISTS', stalledCheckKey) == 1 then return {} end
call('SET', stalledCheckKey, now, 'PX', checkMs)
trim()

local function scheduled(jobKey)
  local scheduler = orNothing(try('HGET', jobKey, 'rjk'))
  return scheduler
    and (call('EXISTS', repeatKey .. ':' .. scheduler) == 1 or call('ZSCORE', repeatKey, scheduler))
end

local moved = {}
local marked = call('SMEMBERS', stalledKey)
if #marked > 0 then call('DEL', stalledKey) end
for i = 1, #marked do
  local jobId = marked[i]
  local jobKey = base .. jobId
  if string.sub(jobId, 1, 2) == '0:' then
    call('LREM', activeKey, 1, jobId)
  elseif call('EXISTS', jobKey .. ':lock') == 0 and call('LREM', activeKey, 1, jobId) == 1 then
    -- What is no hash is passed on all the same, and goes when it is taken.
    local stalled = wholeOf(orNothing(try('HGET', jobKey, 'stc'))) + 1
    orNothing(try('HSET', jobKey, 'stc', stalled))
    if stalled > tonumber(maxStalled) and not scheduled(jobKey) then
      orNothing(try('HSET', jobKey, 'defa', 'job stalled more than allowable limit'))
    end
    ready(base, jobId, 0, 'RPUSH', held(metaKey, activeKey))
    say(eventsKey, 'waiting', 'jobId', jobId, 'prev', 'active')
    say(eventsKey, 'stalled', 'jobId', jobId)
    moved[#moved + 1] = jobId
  end
end

local running = call('LRANGE', activeKey, 0, -1)
for from = 1, #running, 7000 do
  call('SADD', stalledKey, unpack(running, from, math.min(from + 6999, #running)))
end
return moved
