--[[ registerWorker: records that a worker serves queues, or renews its lease. The clock of the server decides when the lease ends.

     Its keys are extensions: first that of the worker's record, <prefix>:<queue>@x:worker:<id>, then that of the list of workers of
     each queue, <prefix>:<queue>@x:workers.
     Arguments: lease (ms), record (JSON).
     Returns: the end of the lease (ms).
     Errors: NOPERM if the user may not call TIME. Then it writes nothing. ]]
--@args lease record
--@use clock
local now = math.floor(serverTime() / 1000)
if now == 0 then return { err = 'NOPERM the user may not call TIME, by which leases end' } end
local ends = string.format('%.0f', now + lease)
call('SET', KEYS[1], record, 'PX', lease)
for i = 2, #KEYS do
  -- Those whose lease has ended count no longer. A new worker removes them.
  if call('ZADD', KEYS[i], ends, KEYS[1]) == 1 then
    call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. string.format('%.0f', now))
  end
  if call('PTTL', KEYS[i]) < tonumber(lease) then call('PEXPIRE', KEYS[i], lease) end
end
return ends
