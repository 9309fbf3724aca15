--[[ getTimings: reads when the newest finished jobs were added, started and finished. It writes nothing.

     Arguments: base, completedFrom, failedFrom (the numbers of completed and failed jobs to skip, from the newest), max (jobs).
     Returns: the numbers of completed and of failed jobs that were looked at; then a list for each job that exists:
       C or F (completed or failed), id, name (at most 500 bytes), timestamp, processedOn, finishedOn, attempts made, opts (only
       if they may contain a delay). The newest job comes first. ]]
--@args base completedFrom failedFrom max
--@keys completed failed
--@use safeRead
max = tonumber(max)
local function newest(set, from)
  return unlessWrongType(try('ZREVRANGE', set, from, from + max - 1, 'WITHSCORES')) or {}
end
local completed, failed = newest(completedKey, tonumber(completedFrom)), newest(failedKey, tonumber(failedFrom))
local c, f, jobs = 1, 1, {}
for _ = 1, max do
  local id, state, score
  if completed[c] and (not failed[f] or tonumber(completed[c + 1]) >= tonumber(failed[f + 1])) then
    id, score, state, c = completed[c], completed[c + 1], 'C', c + 2
  elseif failed[f] then
    id, score, state, f = failed[f], failed[f + 1], 'F', f + 2
  else
    break
  end
  local fields = unlessWrongType(try('HMGET', base .. id, 'name', 'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade', 'opts'))
  if fields and (fields[1] or fields[2]) then
    local opts = fields[7] or ''
    if #opts > 10000 or not string.find(opts, '"delay":', 1, true) then opts = '' end
    jobs[#jobs + 1] = {
      state, id, string.sub(fields[1] or '', 1, 500), fields[2] or '', fields[3] or '', fields[4] or score, fields[6] or fields[5] or '', opts,
    }
  end
end
return { (c - 1) / 2, (f - 1) / 2, jobs }
