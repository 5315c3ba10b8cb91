package infer

// fifo is a queue that reuses its storage. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int // index of the first item
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(item T) {
	if f.head > 32 && f.head > len(f.items)/2 { // a queue that never becomes empty must not grow
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, item)
}

// pop removes the first item; the queue is not empty.
func (f *fifo[T]) pop() T {
	var none T
	item := f.items[f.head]
	f.items[f.head] = none
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return item
}
