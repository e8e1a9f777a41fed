package web

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// A sharing answers whoever asks for the same within a moment with one reading. It is for what only says how much there is,
// such as counts: they cost more than the rows beside them, and at an incident everybody asks for the same ones. What
// somebody may see is part of what they ask for, so nobody is told of another's Projects. A reading is no longer shared as
// soon as a hint says that something may have changed since it began.
type sharing struct {
	moment time.Duration // 0 shares nothing
	hints  func() int64  // how many there have been

	mu       sync.Mutex
	readings map[string]*shared
}

// A shared reading. Whoever is given its value must not change it.
type shared struct {
	began time.Time
	hints int64
	done  chan struct{} // closed when the others are set
	value any
	err   error
}

// mostShared bounds how many readings are kept: as many different lists are rarely looked at in one moment.
const mostShared = 256

var errUnread = errors.New("the reading did not end")

// share returns what read reads, or what it read for somebody else who asked for the same: of is of one kind, and as JSON
// it says all on which the reading depends.
func share[T any](ctx context.Context, s *sharing, kind string, of any, read func(context.Context) (T, error)) (T, error) {
	key, err := json.Marshal([]any{kind, of})
	if err != nil || s.moment == 0 {
		return read(ctx)
	}
	x, mine := s.begin(string(key))
	for !mine {
		select {
		case <-x.done:
		case <-ctx.Done():
		}
		if value, ok := x.read().(T); ok {
			return value, nil
		}
		if ctx.Err() != nil || !x.left() {
			return read(ctx) // another's failure is not this one's
		}
		x, mine = s.begin(string(key)) // one of those who waited reads for all of them
	}
	defer s.end(string(key), x)
	value, err := read(ctx)
	x.value, x.err = value, err
	return value, err
}

// begin returns the reading of key, and whether its caller is to do it.
func (s *sharing) begin(key string) (x *shared, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, hints := time.Now(), s.hints()
	if x := s.readings[key]; x != nil && x.hints == hints && now.Sub(x.began) < s.moment {
		return x, false
	}
	if s.readings == nil || len(s.readings) >= mostShared {
		s.readings = map[string]*shared{}
	}
	x = &shared{began: now, hints: hints, done: make(chan struct{}), err: errUnread}
	s.readings[key] = x
	return x, true
}

// end lets those who wait go on. What failed is shared with nobody who asks from now on.
func (s *sharing) end(key string, x *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.err != nil && s.readings[key] == x {
		delete(s.readings, key)
	}
	close(x.done)
}

// left reports whether the reading, which is over, failed because who did it has left.
func (x *shared) left() bool { return errors.Is(x.err, context.Canceled) }

// read is the value, or nil if there is none, or none yet.
func (x *shared) read() any {
	select {
	case <-x.done:
		if x.err == nil {
			return x.value
		}
	default:
	}
	return nil
}
