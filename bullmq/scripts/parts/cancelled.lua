--[[ Cancelled jobs.

     isCancelText reports whether a reason for a failure is that of a cancelled job: cancelled, or cancelled: and more. ]]
local function isCancelText(reason)
  return reason == 'cancelled' or string.sub(reason, 1, 11) == 'cancelled: '
end
