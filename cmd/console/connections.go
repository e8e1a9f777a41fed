package main

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxConnections is how many connections one listener keeps: what each costs, its goroutine and its buffers, it costs whatever
// the other end does with it. Streams are at most half of them.
const maxConnections = 1024

// connections bounds how many connections a server keeps. When there is one more than there may be, the one that has rested
// longest is closed: which sent no request yet, has not sent the header or the body of one to its end, or has its answer. So a
// storm of connections, or of headers or bodies that never end, makes way for whoever comes with a request. A connection whose
// request has come whole and is being answered is left alone; if they all are, the newest is the one that rests.
type connections struct {
	limit int
	early prometheus.Counter

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // nil while a request is answered
	resting *list.List                 // the one that has rested longest first
}

func newConnections(limit int, early prometheus.Counter) *connections {
	return &connections{limit: limit, early: early, open: map[net.Conn]*list.Element{}, resting: list.New()}
}

type connectionKey struct{}

// bound makes server keep no more connections than c's limit.
func (c *connections) bound(server *http.Server) {
	handler := server.Handler
	server.ConnState = c.changed
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
		defer c.rests(conn)
		if r.Body == nil || r.Body == http.NoBody {
			c.works(conn)
		} else {
			c.arrives(conn)
			r.Body = &arriving{r.Body, sync.OnceFunc(func() { c.works(conn) })}
		}
		handler.ServeHTTP(w, r)
	})
}

// arriving is a body that says when it is there to its end.
type arriving struct {
	io.ReadCloser
	whole func()
}

func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole()
	}
	return n, err
}

// changed takes a new connection in, and forgets one that is closed.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if one := c.add(conn); one != nil {
			c.early.Inc()
			one.Close()
		}
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(conn)
	}
}

// add returns the connection to be closed for conn, which may be conn itself, or nil.
func (c *connections) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = c.resting.PushBack(conn)
	if len(c.open) <= c.limit {
		return nil
	}
	longest := c.resting.Front().Value.(net.Conn)
	c.forget(longest)
	return longest
}

func (c *connections) forget(conn net.Conn) {
	if e := c.open[conn]; e != nil {
		c.resting.Remove(e)
	}
	delete(c.open, conn)
}

// arrives lets conn, which rests until its request is there to its end, rest from now on: a form that is on its way outlives
// what came before it.
func (c *connections) arrives(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.open[conn]; e != nil {
		c.resting.MoveToBack(e)
	}
}

func (c *connections) works(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.open[conn]; e != nil {
		c.resting.Remove(e)
		c.open[conn] = nil
	}
}

func (c *connections) rests(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.open[conn]; ok && e == nil {
		c.open[conn] = c.resting.PushBack(conn)
	}
}
