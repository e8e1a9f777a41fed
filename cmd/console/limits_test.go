package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// pipes is a listener whose connections need no network, so that time in a bubble goes by while nothing is sent on them.
type pipes struct{ made chan net.Conn } // closed once, by its server

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.made
	if !ok {
		return nil, http.ErrServerClosed
	}
	return conn, nil
}
func (p pipes) Close() error { close(p.made); return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// A connection ends when its time is over, whatever it is about: it waits for no header, no body and no reader for ever.
func TestConnectionsEnd(t *testing.T) {
	const form = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
	tests := []struct {
		name, sends string
		reads       bool // what comes
		within      time.Duration
	}{
		{"silent", "", true, 6 * time.Second},
		{"a header without an end", "GET / HTTP/1.1\r\nX-Slow: ", true, 6 * time.Second},
		{"a body without an end", form, true, 16 * time.Second},
		{"a reader who takes nothing", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", false, 21 * time.Second},
		{"answered, and nothing more", "GET /short HTTP/1.1\r\nHost: x\r\n\r\n", true, 3 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, end := served(t)
				if tt.reads {
					go io.Copy(io.Discard, conn)
				}
				began := time.Now()
				io.WriteString(conn, tt.sends)
				if took := end().Sub(began); took > tt.within {
					t.Errorf("it ended after %v, want %v at most", took, tt.within)
				}
			})
		})
	}
}

// A header that is larger than one may be is refused, and none that a session with every cookie sends.
func TestLargeHeaderIsRefused(t *testing.T) {
	for size, want := range map[int]string{16 << 10: "HTTP/1.1 200", 64 << 10: "HTTP/1.1 431"} {
		synctest.Test(t, func(t *testing.T) {
			conn, _ := served(t)
			go io.WriteString(conn, "GET /short HTTP/1.1\r\nHost: x\r\nCookie: "+strings.Repeat("x", size)+"\r\nConnection: close\r\n\r\n")
			if answer, err := io.ReadAll(conn); !strings.HasPrefix(string(answer), want) {
				t.Errorf("a header of %d bytes is answered %q, %v, want %q", size, answer, err, want)
			}
		})
	}
}

// watched is a connection that says when its server has closed it.
type watched struct {
	net.Conn
	closed chan time.Time
}

func (w watched) Close() error {
	select {
	case w.closed <- time.Now():
	default:
	}
	return w.Conn.Close()
}

// served is a connection to the server of pages in this bubble, and what waits for its end.
func served(t *testing.T) (conn net.Conn, end func() time.Time) {
	list := serving(t)
	conn, far := net.Pipe()
	closed := make(chan time.Time, 1)
	list.made <- watched{far, closed}
	t.Cleanup(func() { conn.Close() })
	return conn, func() time.Time { return <-closed }
}

// serving is a server of pages in this bubble, and where it takes its connections from.
func serving(t *testing.T) pipes {
	s := &server{log: slog.New(slog.DiscardHandler), crowded: prometheus.NewCounter(prometheus.CounterOpts{})}
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path != "/short" {
			io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	})
	list := pipes{make(chan net.Conn)}
	var group errgroup.Group
	running := s.serve(&group, list, pages, pageTime)
	t.Cleanup(func() {
		running.Close()
		group.Wait()
	})
	return list
}

// No statement of a page, a sign-in, a retry or a cycle goes on for longer than a page is waited for. A migration's may.
func TestStatementsEnd(t *testing.T) {
	t.Parallel()
	vars := variables(pgtest.New(t))
	urls, err := readDatabases(func(name string) string { return vars[name] })
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range roleVariables {
		pool, err := urls.open(t.Context(), v.role, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		want := "5s"
		if v.role == migrations.RoleMigration {
			want = "0"
		}
		if got := pgtest.Value[string](t, pool, "SELECT current_setting('statement_timeout')"); got != want {
			t.Errorf("a statement of %s may take %s, want %s", v.role, got, want)
		}
	}
}
