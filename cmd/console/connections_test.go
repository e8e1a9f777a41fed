package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A crowd is a server that keeps three connections. A request for /held is answered when the test lets it.
type crowd struct {
	*testing.T
	server  *httptest.Server
	kept    *connections
	held    chan struct{} // receives when such a request has come
	release func()
}

func newCrowd(t *testing.T) crowd {
	released := make(chan struct{})
	c := crowd{T: t, held: make(chan struct{}, 10), release: sync.OnceFunc(func() { close(released) })}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/held" {
			c.held <- struct{}{}
			<-released
		}
	}))
	c.kept = newConnections(3, prometheus.NewCounter(prometheus.CounterOpts{}))
	c.kept.bound(c.server.Config)
	c.server.Start()
	t.Cleanup(c.server.Close)
	t.Cleanup(c.release)
	return c
}

// dial opens a connection and sends text on it.
func (c crowd) dial(text string) net.Conn {
	c.Helper()
	conn, err := net.Dial("tcp", c.server.Listener.Addr().String())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { conn.Close() })
	io.WriteString(conn, text)
	return conn
}

const aRequest = "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reports whether an answer comes on conn, and not its end.
func answered(conn net.Conn) bool {
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Whoever comes with a request is answered, however many connections rest: silent, in the middle of a header or of a body, or
// answered.
// A request that is being answered is left alone.
func TestTooManyConnections(t *testing.T) {
	for name, rests := range map[string]string{"silent": "", "in a header": "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"in a body": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nr", "in a part of a body": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwo",
		"answered": fmt.Sprintf(aRequest, "")} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			held := c.dial("POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nall")
			<-c.held
			var crowd []net.Conn
			for range 20 {
				crowd = append(crowd, c.dial(rests))
				if other := c.dial(fmt.Sprintf(aRequest, "")); !answered(other) {
					t.Fatal("a request was not answered")
				}
			}
			for i, conn := range crowd[:len(crowd)-2] { // the last of them may be there still
				conn.SetReadDeadline(time.Now().Add(5 * time.Second))
				if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("connection %d of %d is still open", i, len(crowd))
				}
			}
			c.release()
			if !answered(held) {
				t.Error("a request that was being answered lost its connection")
			}
		})
	}
}

// A form that comes on an old connection rests from then on, and not from when the connection was opened.
func TestFormThatArrivesIsNotTheOldest(t *testing.T) {
	c := newCrowd(t)
	first := c.dial(fmt.Sprintf(aRequest, ""))
	if !answered(first) {
		t.Fatal("the first request was not answered")
	}
	for range 2 {
		if !answered(c.dial(fmt.Sprintf(aRequest, ""))) {
			t.Fatal("a request was not answered")
		}
	}
	io.WriteString(first, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
	eventually(t, "the form arrives", func() bool {
		c.kept.mu.Lock()
		defer c.kept.mu.Unlock()
		return c.kept.resting.Back().Value.(net.Conn).RemoteAddr().String() == first.LocalAddr().String()
	})
	if !answered(c.dial(fmt.Sprintf(aRequest, ""))) {
		t.Fatal("one more was not answered")
	}
	io.WriteString(first, "ll")
	if !answered(first) {
		t.Error("a form that was on its way lost its connection to one that was opened after it")
	}
}

// When every connection has a request that is being answered, one more is closed, and the others are answered.
func TestTooManyRequests(t *testing.T) {
	c := newCrowd(t)
	var held []net.Conn
	for range 3 {
		held = append(held, c.dial(fmt.Sprintf(aRequest, "held")))
		<-c.held
	}
	if answered(c.dial(fmt.Sprintf(aRequest, ""))) {
		t.Error("one more was answered: a server keeps more than it may")
	}
	c.release()
	for _, conn := range held {
		if !answered(conn) {
			t.Error("a request that was being answered lost its connection")
		}
	}
	if !answered(c.dial(fmt.Sprintf(aRequest, ""))) {
		t.Error("none is answered after the others were")
	}
}

// The server of pages keeps as many connections as one listener may, and no more.
func TestServerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := serving(t)
		closed := make(chan time.Time, 2)
		for range maxConnections + 1 {
			conn, far := net.Pipe()
			list.made <- watched{far, closed}
			defer conn.Close()
		}
		synctest.Wait()
		if got := len(closed); got == 0 {
			t.Errorf("%d connections are kept, want %d", maxConnections+1, maxConnections)
		}
	})
}

// A connection that its other end has closed takes no room: others are not closed for it.
func TestClosedConnectionsTakeNoRoom(t *testing.T) {
	c := newCrowd(t)
	first := c.dial(fmt.Sprintf(aRequest, ""))
	if !answered(first) {
		t.Fatal("the first request was not answered")
	}
	for range 10 {
		other := c.dial(fmt.Sprintf(aRequest, ""))
		if !answered(other) {
			t.Fatal("a request was not answered")
		}
		other.Close()
		eventually(t, "the server has noticed", func() bool {
			c.kept.mu.Lock()
			defer c.kept.mu.Unlock()
			return len(c.kept.open) == 1 && c.kept.resting.Len() == 1
		})
	}
	io.WriteString(first, fmt.Sprintf(aRequest, ""))
	if !answered(first) {
		t.Error("a connection that rested was closed although there was room")
	}
}
