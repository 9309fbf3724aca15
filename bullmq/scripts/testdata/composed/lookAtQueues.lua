-- Composed from lookAtQueues.lua and its parts. Regenerate with make composed.

local call, try = redis.call, redis.pcall
local queues = KEYS
local quick = ARGV[1]
local claim = ARGV[2]
local failed = ARGV[3]
local vanished = ARGV[4]
local function nextDue(delayedAt)
  local first = call('ZRANGE', delayedAt, '0', '0', 'WITHSCORES')
  if first[2] then return tonumber(first[2]) / 4096 end
end
local function toNumber(text)
  local n = tonumber(text)
  if n and n == n then return n end
  return 0
end
local function toInteger(text)
  return math.floor(math.max(math.min(toNumber(text), 9007199254740991), -9007199254740991))
end
local function errorText(result)
  return type(result) == 'table' and result.err or result -- a table from Redis 7 on
end
local function orText(fine, result, ...)
  if fine then return true, result, ... end
  local text = errorText(result)
  local code = string.match(text, '^(%u+) ') or string.match(text, '^@user_script: %d+: %-(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' then error(result, 0) end
  return false, text
end
local function lookAtMarker(base)
  local bits, due = 0, nil
  local marks = call('ZRANGE', base .. 'marker', 0, -1, 'WITHSCORES')
  for i = 2, #marks, 2 do
    local score = toInteger(marks[i])
    if score > 0 then due = score else bits = 1 end
  end
  return bits, due
end
local function lookAt(base)
  local wait, prioritized, delayed = base .. 'wait', base .. 'prioritized', base .. 'delayed'
  local active, told = base .. 'active', string.sub(base, 1, -2) .. '@x:events'
  local bits, due = 0, nil
  if call('EXISTS', wait, prioritized, delayed, active) > 0 then
    if call('EXISTS', wait, prioritized) > 0 and not call('HGET', base .. 'meta', 'paused') then bits = 1 end
    if call('EXISTS', active) > 0 then bits = bits + 2 end
    due = nextDue(delayed)
  end
  if try('EXISTS', told) == 1 then bits = bits + 4 end
  if failed == '1' and call('EXISTS', base .. 'failed') > 0 then bits = bits + 8 end
  if vanished == '1' and call('EXISTS', base .. 'meta') == 0 then bits = bits + 16 end
  return bits, due
end
local look, seen, to = quick == '1' and lookAtMarker or lookAt, {}, 0
for n = 1, #queues - 1 do
  local fine, bits, due = orText(pcall(look, queues[n]))
  if not fine then bits = 1 end
  if bits > 0 or due then
    if due and claim == '1' then try('ZREM', queues[n] .. 'marker', '1') end
    seen[to + 1], seen[to + 2], seen[to + 3] = n, bits, toInteger(due)
    to = to + 3
  end
end
return seen
