package backend

// Administration changes the whole queue.
type Administration interface{}
