package bubble

import (
	"bytes"
	"sync"
)

// Buffer can be read while it is being written.
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

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
