package postgres

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// A tail passes on what a process writes and remembers the end of it, so that a
// failure can be explained although nobody kept the log.
type tail struct {
	mu   sync.Mutex
	last []byte
	next io.Writer // may be nil
}

const tailSize = 4 << 10 // bytes

// Write never fails: a child must not block because its log has nowhere to go.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailSize):]
	if t.next != nil {
		_, _ = t.next.Write(b)
	}
	return len(b), nil
}

// explain adds the last lines written to err.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := bytes.TrimSpace(t.last)
	if len(said) == 0 {
		return err
	}
	return fmt.Errorf("%w; its last words:\n%s", err, said)
}
