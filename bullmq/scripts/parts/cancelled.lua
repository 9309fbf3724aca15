--[[ Cancelled jobs.

     isCancelText reports whether the reason of a failure is that of a cancelled job: "cancelled", or a text that begins with
             "cancelled: ". ]]
local function isCancelText(reason)
  return reason == 'cancelled' or string.sub(reason, 1, 11) == 'cancelled: '
end
