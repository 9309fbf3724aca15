--[[ isMaxed: does the queue run as many jobs as its global concurrency allows?

     Answer: 1 or 0. ]]
--@args base
--@keys meta active
--@use gate
return isFull(call('HGET', metaKey, 'concurrency'), activeKey) and 1 or 0
