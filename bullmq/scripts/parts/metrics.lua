--[[ collectMetrics counts finished jobs. The hash at statsAt holds count, prevTS and prevCount. In each new minute, the number
     of jobs since the last entry is added to the front of the list <statsAt>:data, with a zero for each minute without
     jobs. ]]
local function collectMetrics(statsAt, points, now, jobs)
  local before = call('HINCRBY', statsAt, 'count', jobs) - jobs
  local last = call('HMGET', statsAt, 'prevTS', 'prevCount')
  if not last[1] then
    call('HSET', statsAt, 'prevTS', now, 'prevCount', 0)
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(last[1] / 60000), tonumber(points))
  if minutes <= 0 then return end
  local row = { before - last[2] }
  for i = 2, minutes do row[i] = 0 end
  for from = 1, minutes, 7000 do
    call('LPUSH', statsAt .. ':data', unpack(row, from, math.min(from + 6999, minutes)))
  end
  call('LTRIM', statsAt .. ':data', 0, points - 1)
  call('HSET', statsAt, 'prevCount', before, 'prevTS', now)
end
