package bullmq

import "time"

// LookForResultsEvery says how often a wait asks for a job of whose end nothing was heard.
func (q *Queue) LookForResultsEvery(d time.Duration) { q.results.lookAgain = d }

// HidesPasswords takes passwords out of errors.
var HidesPasswords = hidesPasswords
