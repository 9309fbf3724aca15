--[[ resolveFetch: determines the outcome of a call whose reply was lost. To do so, it looks for the job that is locked with
     the token. It writes nothing.

     Arguments: base, token, jobId (the job that the call was to finish, or '' if it was to fetch only).
     Returns: {1} the job is still active under the token: nothing has been done
              {0, jobId, hash} the call ran, and fetched this job under the same token
              {0} the call ran and fetched no job, or the lock was lost. ]]
--@args base token jobId
--@keys active
--@use safeRead
local function owns(id) return unlessWrongType(try('GET', base .. id .. ':lock')) == token end
if jobId ~= '' and owns(jobId) and call('LPOS', activeKey, jobId) then return { 1 } end
local running = call('LRANGE', activeKey, 0, -1)
for i = 1, #running do
  local hash = owns(running[i]) and unlessWrongType(try('HGETALL', base .. running[i]))
  if hash then return { 0, running[i], hash } end
end
return { 0 }
