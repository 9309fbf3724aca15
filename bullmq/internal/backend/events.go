package backend

// Events writes and reads the queue's events.
type Events interface{}
