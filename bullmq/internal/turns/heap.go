package turns

// heap is a priority queue whose elements know their place in it, so that any of them
// can be moved or removed. An element that is not in the heap has the place -1.
type heap[T any] struct {
	before func(a, b T) bool
	place  func(T) *int
	all    []T
}

func (h *heap[T]) size() int { return len(h.all) }

// first returns the first element of a heap that is not empty.
func (h *heap[T]) first() T { return h.all[0] }

func (h *heap[T]) push(e T) {
	*h.place(e) = len(h.all)
	h.all = append(h.all, e)
	h.up(len(h.all) - 1)
}

// fix moves an element to its place after its order has changed.
func (h *heap[T]) fix(e T) {
	h.up(*h.place(e))
	h.down(*h.place(e))
}

// remove removes an element, if it is in the heap.
func (h *heap[T]) remove(e T) {
	i := *h.place(e)
	if i < 0 {
		return
	}
	last := len(h.all) - 1
	moved := h.all[last]
	var none T
	h.all[last] = none
	h.all = h.all[:last]
	*h.place(e) = -1
	if i < last {
		h.put(moved, i)
		h.fix(moved)
	}
}

func (h *heap[T]) put(e T, i int) {
	h.all[i] = e
	*h.place(e) = i
}

func (h *heap[T]) up(i int) {
	e := h.all[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(e, h.all[parent]) {
			break
		}
		h.put(h.all[parent], i)
		i = parent
	}
	h.put(e, i)
}

func (h *heap[T]) down(i int) {
	e := h.all[i]
	for {
		child := 2*i + 1
		if child >= len(h.all) {
			break
		}
		if other := child + 1; other < len(h.all) && h.before(h.all[other], h.all[child]) {
			child = other
		}
		if !h.before(h.all[child], e) {
			break
		}
		h.put(h.all[child], i)
		i = child
	}
	h.put(e, i)
}
