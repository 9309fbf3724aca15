--[[ finishMany finishes jobs that finishedJobs has returned (codec.lua). It finishes as many as possible with shared commands,
     then the others one by one. name is the name of the worker that has run the jobs.
     Returns refused and gone. refused has two values for each job that did not finish: its number and its error, which is an
     error of finishJob, or the text of an error of the server. gone[number] is true for these jobs.

     Events: those of finishJob. ]]
--@use finish finishBatch
local function finishMany(base, now, points, name, ids, tokens, values, shared, bytes, keeps)
  local refused, gone = {}, {}
  local left = finishBatch(base, now, ids, tokens, values, shared, keeps, bytes, name == '' and 8 or 9, points)
  if not next(left) then return refused, gone end
  for i = 1, #ids do
    if left[i] then
      local more = keeps and keeps[i] or {}
      local failed = more[4]
      local could, code = pcall(finishJob, base, now, {
        id = ids[i], token = tokens[i], value = shared or values[i], outcome = failed and 'failed' or 'completed',
        keepCount = more[1], keepAge = more[2], keepLimit = more[3],
        attempts = failed and ARGV[failed], from = failed and failed + 1 or 1, to = failed and more[5] or 0,
      }, points)
      if not could or code < 0 then
        if type(code) == 'table' then code = code.err end -- from Redis 7 on
        gone[i], refused[#refused + 1], refused[#refused + 2] = true, i, code
      end
    end
  end
  return refused, gone
end
