--[[ findDeadLetter: finds the newest dead letter of a job in this queue. A job has several letters if it was added again, and
     failed again, while an earlier letter was there. It finds the newest letter even if letters before it were removed, up
     to nine in a row.

     Arguments: base, queueKey (of the queue of the job), jobId.
     Returns: the id and the hash of the letter; nothing if there is none. ]]
--@args base queueKey jobId
--@keys meta
--@use safeRead letter
local newest, failedAt
local n, missing = 0, 0
while missing < 10 do
  n = n + 1
  local id = letterIdOf(queueKey, jobId, n)
  local opts = unlessWrongType(try('HGET', base .. id, 'opts'))
  missing = opts and 0 or missing + 1
  local read, decoded = pcall(cjson.decode, opts or '')
  local letter = read and type(decoded) == 'table' and decoded.deadLetter
  if type(letter) == 'table' and letter.queue == queueKey and letter.id == jobId then
    local at = toNumber(letter.failedAt)
    if not newest or at >= failedAt then newest, failedAt = id, at end
  end
end
if not newest then return {} end
return { newest, call('HGETALL', base .. newest) }
