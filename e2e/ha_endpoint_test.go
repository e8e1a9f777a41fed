//go:build ha

package e2e

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// An endpoint is the one address that a replica knows its database by. What is behind it changes at a failover; the
// replica is not told.
type endpoint struct {
	address string

	mu     sync.Mutex
	target string // where new connections lead; "" refuses them
	open   map[net.Conn]bool
	trap   *trap
}

// A trap waits for one message of a role's and keeps it, or its answer, for as long as the connection lives.
type trap struct {
	role    string
	message string
	answer  bool          // the server gets the message, and the replica no answer
	sprung  chan struct{} // closed when the server has not got it, or has answered it
}

// The messages that matter, as pgx sends them.
const (
	beginCommit = "begin isolation level serializable\x00" // between a claim and its commit
	commitSent  = "commit\x00"
)

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	e := &endpoint{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serve(client)
		}
	}()
	return e
}

// point leads new connections to target; what is open stays where it is.
func (e *endpoint) point(target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.target = target
}

// cut breaks every connection and refuses new ones.
func (e *endpoint) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.target = ""
	for c := range e.open {
		c.Close()
	}
}

// set lays a trap for the next message of role's that contains message.
func (e *endpoint) set(role, message string, answer bool) *trap {
	t := &trap{role: "user\x00" + role + "\x00", message: message, answer: answer, sprung: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trap = t
	return t
}

// spring returns the trap, once, if it is meant for this message of this role.
func (e *endpoint) spring(startup, message []byte) *trap {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.trap
	if t == nil || !bytes.Contains(startup, []byte(t.role)) || !bytes.Contains(message, []byte(t.message)) {
		return nil
	}
	e.trap = nil
	return t
}

// enter registers a connection to be cut; it reports false when the endpoint leads nowhere.
func (e *endpoint) enter(c net.Conn) (target string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.target != "" {
		e.open[c] = true
	}
	return e.target, e.target != ""
}

func (e *endpoint) leave(c net.Conn) {
	c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, c)
}

func (e *endpoint) serve(client net.Conn) {
	defer e.leave(client)
	target, ok := e.enter(client)
	if !ok {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer e.leave(server)
	if now, _ := e.enter(server); now != target {
		return // cut while it was dialled
	}
	caught := make(chan *trap, 1)
	go func() {
		defer client.Close()
		answers(server, client, caught)
	}()
	e.messages(client, server, caught)
}

// messages copies what the replica says, until a trap springs.
func (e *endpoint) messages(client, server net.Conn, caught chan<- *trap) {
	var startup []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if startup == nil {
			startup = bytes.Clone(buffer[:n])
		}
		t := e.spring(startup, buffer[:n])
		switch {
		case t != nil && t.answer:
			caught <- t
		case t != nil:
			close(t.sprung)
			io.Copy(io.Discard, client)
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answers copies what the server says, until there is a trap for the next of it.
func answers(server, client net.Conn, caught <-chan *trap) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		select {
		case t := <-caught:
			close(t.sprung)
			io.Copy(io.Discard, server)
			return
		default:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
