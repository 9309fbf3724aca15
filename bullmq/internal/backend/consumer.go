package backend

// Consumer fetches jobs and ends them.
type Consumer interface{}
