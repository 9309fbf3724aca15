--[[ isMaxed: reports whether as many jobs are active as the global concurrency of the queue allows.

     Arguments: base.
     Returns: 1 or 0. ]]
--@args base
--@keys meta active
--@use held
return isMaxed(call('HGET', metaKey, 'concurrency'), activeKey) and 1 or 0
