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
	read    func() (any, error)
	end     context.CancelFunc // of the reading
	waiting int                // how many have not left; guarded by the gathering's mutex, and so is next
	next    *gathered          // for who asks after this one began
	done    chan struct{}      // closed when the others are set
	value   any
	err     error
}

// together returns what read reads after it was called, for whoever else asked for the same in time: of is of one kind, and
// as JSON it says all on which the reading depends. Nobody's leaving ends the reading of others. When all have left it ends: it
// holds no connection for nobody, and whoever reloads a page that hangs does not wait for what they left.
func together[T any](ctx context.Context, g *gathering, kind string, of any, read func(context.Context) (T, error)) (value T, err error) {
	key, err := json.Marshal([]any{kind, of})
	if err != nil {
		return value, err
	}
	all, end := context.WithCancel(context.WithoutCancel(ctx))
	x := g.ask(string(key), end, func() (any, error) {
		ctx, cancel := context.WithTimeout(all, requestTime)
		defer cancel()
		return read(ctx)
	})
	defer g.leave(x)
	select {
	case <-x.done:
		value, _ = x.value.(T)
		return value, x.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// ask returns a reading of key that has not begun, or begins it if none is under way. Its caller waits for it until they
// leave it.
func (g *gathering) ask(key string, end context.CancelFunc, read func() (any, error)) *gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &gathered{read: read, end: end, waiting: 1, done: make(chan struct{})}
	now, reading := g.readings[key]
	if !reading {
		if g.readings == nil {
			g.readings = map[string]*gathered{}
		}
		g.readings[key] = x
		go g.run(key, x)
		return x
	}
	if now.next == nil || now.next.waiting == 0 {
		now.next = x
		return x
	}
	end() // of a reading that is not needed
	now.next.waiting++
	return now.next
}

// leave ends x if nobody waits for it any more.
func (g *gathering) leave(x *gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x.waiting--; x.waiting == 0 {
		x.end()
	}
}

// run does a reading, and those that were asked for meanwhile.
func (g *gathering) run(key string, x *gathered) {
	for x != nil {
		x.do()
		x = g.after(key, x)
	}
}

// after is the reading that was asked for while x was done, which begins now; nil if nobody waits for one.
func (g *gathering) after(key string, x *gathered) *gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x.next == nil || x.next.waiting == 0 {
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
