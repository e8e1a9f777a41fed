package web

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
)

// A gathering answers all who ask for the same while it is being read with one more reading, which begins when that one is
// over. So nobody is told what was so before they asked, and no list is read more than once at a time, however many look at
// it: a hint makes every open page ask at once. What somebody may see is part of what they ask for, so nobody is told of
// another's Projects.
type gathering struct {
	mu       sync.Mutex
	readings map[string]*gathered // under way
}

// A gathered reading. Whoever is given its value must not change it.
type gathered struct {
	read  func() (any, error)
	next  *gathered     // for who asks after this one began; guarded by the gathering's mutex
	done  chan struct{} // closed when the others are set
	value any
	err   error
}

// together returns what read reads after it was called, for whoever else asked for the same in time: of is of one kind, and
// as JSON it says all on which the reading depends. Nobody's leaving ends the reading of others.
func together[T any](ctx context.Context, g *gathering, kind string, of any, read func(context.Context) (T, error)) (value T, err error) {
	key, err := json.Marshal([]any{kind, of})
	if err != nil {
		return value, err
	}
	x := g.ask(string(key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()
		return read(ctx)
	})
	select {
	case <-x.done:
		value, _ = x.value.(T)
		return value, x.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// ask returns a reading of key that has not begun, or begins it if none is under way.
func (g *gathering) ask(key string, read func() (any, error)) *gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &gathered{read: read, done: make(chan struct{})}
	now, reading := g.readings[key]
	if !reading {
		if g.readings == nil {
			g.readings = map[string]*gathered{}
		}
		g.readings[key] = x
		go g.run(key, x)
		return x
	}
	if now.next == nil {
		now.next = x
	}
	return now.next
}

// run does a reading, and those that were asked for meanwhile.
func (g *gathering) run(key string, x *gathered) {
	for x != nil {
		x.do()
		x = g.after(key, x)
	}
}

// after is the reading that was asked for while x was done, which begins now; nil if there is none.
func (g *gathering) after(key string, x *gathered) *gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x.next == nil {
		delete(g.readings, key)
		return nil
	}
	g.readings[key] = x.next
	return x.next
}

// do reads, and makes a panic an error as [recoverPanic] does, whose goroutine this is not.
func (x *gathered) do() {
	defer close(x.done)
	defer func() {
		if r := recover(); r != nil {
			x.value, x.err = nil, fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	x.value, x.err = x.read()
}
