--[[ resolveFetches: is for a call whose reply was lost. It finds the jobs that the call has locked, in any of several queues.
     It writes nothing.

     Arguments: the tokens of the call.
     Returns: for each active job whose lock has one of the tokens four values: queue (the number of the queue), jobId, token,
     hash. ]]
--@queues active
--@args ...
--@use safeRead
local wanted, found, all = {}, {}, #queues - 1
for i = rest, #ARGV do wanted[ARGV[i]] = true end
for n = 1, all do
  local base = useQueue(n)
  local running = unlessWrongType(try('LRANGE', activeKey, 0, -1)) or {}
  for from = 1, #running, 7000 do
    local locks = {}
    for i = from, math.min(from + 6999, #running) do locks[#locks + 1] = base .. running[i] .. ':lock' end
    local owners = call('MGET', unpack(locks))
    for i = 1, #locks do
      local jobId, owner = running[from + i - 1], owners[i]
      local hash = owner and wanted[owner] and unlessWrongType(try('HGETALL', base .. jobId))
      if hash then
        local to = #found
        found[to + 1], found[to + 2], found[to + 3], found[to + 4] = n, jobId, owner, hash
      end
    end
  end
end
return found
