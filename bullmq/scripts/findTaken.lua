--[[ findTaken: settles a call whose answer was lost: what does this token hold?

     Arguments: base, token, jobId: the job that the call was to end, or '' where it was only to take one.
     Answer: {1} that job is still active under the token: nothing has been done
             {0, jobId, hash} the call was carried out, and took this job under the same token
             {0} it was carried out and took none, or the lock is lost.
     Writes nothing. ]]
--@args base token jobId
--@keys active
--@use sound
local function held(id) return orNothing(try('GET', base .. id .. ':lock')) == token end
if jobId ~= '' and held(jobId) and call('LPOS', activeKey, jobId) then return { 1 } end
local running = call('LRANGE', activeKey, 0, -1)
for i = 1, #running do
  local hash = held(running[i]) and orNothing(try('HGETALL', base .. running[i]))
  if hash then return { 0, running[i], hash } end
end
return { 0 }
