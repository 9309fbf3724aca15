package backend

// Schedulers reads and changes the queue's job schedulers.
type Schedulers interface{}
