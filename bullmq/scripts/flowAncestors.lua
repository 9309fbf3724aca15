--[[ flowAncestors: follows the parents of a job upwards. It writes nothing.

     Arguments: tag (the hash tag of the keys that this call can read; empty if it can read all), max (parents), jobId.
     Returns: the keys of the parent, of its parent and so on, then the reason why there is no other key:
       root (the last job has no parent), gone (the last job does not exist), elsewhere (the last job has another hash tag),
       again (the last job is an ancestor of itself), more (there are max keys). ]]
--@queues
--@args tag max jobId
--@use safeRead
local key, path, seen = queues[1] .. jobId, {}, {}
while true do
  if tag ~= '' and string.match(key, '{([^}]*)}') ~= tag then return { path, 'elsewhere' } end
  local fields = unlessWrongType(try('HMGET', key, 'parentKey', 'timestamp', 'name'))
  if not fields or not fields[2] and not fields[3] then return { path, 'gone' } end
  if not fields[1] or fields[1] == '' then return { path, 'root' } end
  seen[key] = true
  if seen[fields[1]] then return { path, 'again' } end
  if #path >= tonumber(max) then return { path, 'more' } end
  key = fields[1]
  path[#path + 1] = key
end
