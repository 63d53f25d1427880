package bubble

import (
	"bytes"
	"sync"
)

// Buffer can be read while it is written to.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends the text.
func (b *Buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

// String returns what has been written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
