--[[ readFlow: reads jobs of flows and their children, level by level, until the call has done its share. It writes nothing.
     It leaves out the data and the return values of jobs.

     Arguments: tag (the hash tag of the keys that this call can read; empty if it can read all), maxJobs (to read),
       maxWork (in members of lists and of records of children, after which it reads no more jobs), room (the number of children
       that may be returned), maxDepth, maxChildren (of a job), maxText (the longest text to return, in bytes). Then for each job
       to begin with: the index of its queue, its id, its depth.
     Returns: found, records. The jobs are numbered: first those of the arguments, then those that were found.
       found has for each job that was found: its key, the number of its parent, and which of the kinds of children it is.
       A record is a text, a list with the error for a job that can't be read, 0 (there is no such job), or -1 (the job was not
       read). The jobs after the last record were not read either. The text has nine fields, separated by semicolons:
         state, timestamp, processedOn, finishedOn, attempts made, length of failedReason, length of the name that follows,
         numbers of the children (failed, ignored, pending and processed, separated by commas; empty for none),
         name and failedReason (at most maxText bytes of each; no failedReason that has more than 64 times as many)
       The state is empty for a job that is in none. If more than 1,000 jobs wait, a job that is in no other state is waiting,
       and if more than 1,000 are active, a job with a lock is active. ]]
--@queues
--@args tag maxJobs maxWork room maxDepth maxChildren maxText ...
--@use text safeRead perQueue
maxJobs, maxWork, room = tonumber(maxJobs), tonumber(maxWork), tonumber(room)
maxDepth, maxChildren, maxText = tonumber(maxDepth), tonumber(maxChildren), tonumber(maxText)
local listLimit = 1000
local todo, seen, work = {}, {}, 0

local function within(key)
  if tag == '' then return true end
  return string.match(key, '{([^}]*)}') == tag
end

-- Returns the jobs of a list as the keys of a table; false if they are too many.
local lists = {}
local function membersOf(list)
  local members = lists[list]
  if members == nil then
    members = false
    if (unlessWrongType(try('LLEN', list)) or 0) <= listLimit then
      members = {}
      local ids = unlessWrongType(try('LRANGE', list, 0, -1)) or {}
      for i = 1, #ids do members[ids[i]] = true end
      work = work + #ids
    end
    lists[list] = members
  end
  return members
end

local empty = {} -- by set
local function isIn(set, id)
  if empty[set] == nil then empty[set] = (unlessWrongType(try('ZCARD', set)) or 0) == 0 end
  return not empty[set] and call('ZSCORE', set, id)
end

local function stateOfJob(base, id, key, finished)
  if finished then
    if isIn(base .. 'completed', id) then return 'completed' end
    if isIn(base .. 'failed', id) then return 'failed' end
  end
  local active, wait, paused = membersOf(base .. 'active'), membersOf(base .. 'wait'), membersOf(base .. 'paused')
  if active and active[id] or not active and call('EXISTS', key .. ':lock') == 1 then return 'active' end
  if wait and wait[id] or paused and paused[id] then return 'waiting' end
  if isIn(base .. 'waiting-children', id) then return 'waiting-children' end
  if isIn(base .. 'delayed', id) then return 'delayed' end
  if isIn(base .. 'prioritized', id) then return 'prioritized' end
  if wait and paused then return '' end
  return 'waiting'
end

-- Returns about as many fields of a hash as are wanted. HKEYS returns no values, but all fields.
local function fieldsOf(hash, size, wanted)
  if size <= 1000 or size <= 50000 and size <= 50 * wanted then
    work = work + size
    return call('HKEYS', hash)
  end
  local pairsOf = call('HSCAN', hash, 0, 'COUNT', math.min(wanted, 1000))[2]
  local fields = {}
  for i = 1, #pairsOf, 2 do fields[#fields + 1] = pairsOf[i] end
  return fields
end

local function membersOfSet(set, size, wanted)
  if size <= wanted then return call('SMEMBERS', set) end
  return call('SSCAN', set, 0, 'COUNT', math.min(wanted, 10000))[2]
end

-- The failed children come first, because they matter most if not all are returned.
local suffixes = { ':unsuccessful', ':failed', ':dependencies', ':processed' }
local lengths = { 'ZCARD', 'HLEN', 'SCARD', 'HLEN' }
local function childrenOf(kind, key, size, wanted)
  if kind == 1 then return call('ZRANGE', key, 0, wanted - 1) end
  if kind == 3 then return membersOfSet(key, size, wanted) end
  return fieldsOf(key, size, wanted)
end

local found = {}
local function addChildren(n, key, sizes, depth)
  local wanted = math.min(room, maxChildren)
  for kind = 1, 4 do
    local size = sizes[kind]
    if size > 0 and wanted > 0 then
      local children = childrenOf(kind, key .. suffixes[kind], size, wanted)
      work = work + #children
      for i = 1, #children do
        local child = children[i]
        if wanted > 0 and not seen[child] then
          seen[child] = true
          wanted, room = wanted - 1, room - 1
          todo[#todo + 1] = { child, depth }
          local at = #found
          found[at + 1], found[at + 2], found[at + 3] = child, n, kind
        end
      end
    end
  end
end

-- Returns the numbers of the children by kind, in the order of suffixes; nil for a job without children.
local order = { 3, 4, 2, 1 } -- the frequent kinds first
local function sizesOf(key)
  local kinds = call('EXISTS', key .. suffixes[1], key .. suffixes[2], key .. suffixes[3], key .. suffixes[4])
  if kinds == 0 then return nil end
  local sizes = { 0, 0, 0, 0 }
  for i = 1, 4 do
    local kind = order[i]
    local size = unlessWrongType(try(lengths[kind], key .. suffixes[kind]))
    if size ~= 0 then
      sizes[kind], kinds = size or 0, kinds - 1
      if kinds == 0 then break end
    end
  end
  return sizes
end

local function numberText(text) return tonumber(text) and text or '' end

local function read(n, base, id, key, depth)
  local fields = unlessWrongType(try('HMGET', key, 'name', 'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade'))
  if not fields or not fields[1] and not fields[2] then return 0 end
  local name, started, finished, attempts = fields[1] or '', numberText(fields[3]), numberText(fields[4]), numberText(fields[6] or fields[5])
  local length, reason = 0, ''
  if started ~= '' or attempts ~= '' then
    length = call('HSTRLEN', key, 'failedReason')
    if length > 0 and length <= 64 * maxText then reason = string.sub(call('HGET', key, 'failedReason'), 1, maxText) end
  end
  local head = #name <= maxText and name or string.sub(name, 1, maxText)
  local sizes = sizesOf(key)
  local children = ''
  if sizes then
    children = table.concat(sizes, ',')
    if depth < maxDepth then addChildren(n, key, sizes, depth + 1) end
  end
  return table.concat({
    stateOfJob(base, id, key, finished ~= ''), numberText(fields[2]), started, finished, attempts, length, #head, children, head .. reason,
  }, ';')
end

for i = rest, #ARGV, 3 do
  local base, id = queues[tonumber(ARGV[i])], ARGV[i + 1]
  seen[base .. id] = true
  todo[#todo + 1] = { base .. id, tonumber(ARGV[i + 2]), base, id }
end
local records, done = {}, 0
local n = 1
while todo[n] and done < maxJobs and work < maxWork do
  local job = todo[n]
  local key, base, id = job[1], job[3], job[4]
  if not base then base, id = splitKey(key) end
  records[n] = -1
  if base and within(base) then
    local fine, record = pcall(read, n, base, id, key, job[2])
    records[n] = fine and record or { errorText(record) }
    done = done + 1
  end
  n = n + 1
end
return { found, records }
