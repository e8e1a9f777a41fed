package pg_test

import (
	"bytes"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// loss is what a proxy does to a connection that sends COMMIT.
type loss int

const (
	loseRequest loss = iota // the server never sees it, and rolls back
	loseAnswer              // the server has answered it before the connection breaks
)

// A proxy stands between a pool and its server and breaks every connection at its COMMIT.
type proxy struct {
	server string
	loss   loss
	broken atomic.Int32 // connections broken so far
}

// throughProxy is a pool to the database of rawURL whose COMMITs get no answer.
func throughProxy(t *testing.T, rawURL string, l loss) (*pgxpool.Pool, *proxy) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host, loss: l}
	go p.accept(listener)
	u.Host = listener.Addr().String()
	pool, err := pg.Open(t.Context(), pg.PoolConfig{URL: u.String(), App: t.Name(), Schema: migrations.Schema, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close(); listener.Close() })
	return pool, p
}

func (p *proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var committing atomic.Bool
	go func() { // the one answer after COMMIT is its own: the client waits for each
		defer client.Close()
		forward(server, client, func([]byte) bool { return !committing.Load() })
	}()
	forward(client, server, func(message []byte) bool {
		if !bytes.Contains(message, []byte("commit\x00")) {
			return true
		}
		p.broken.Add(1)
		committing.Store(true)
		return p.loss == loseAnswer
	})
}

// forward copies from one connection to the other until either ends or pass refuses what was read.
func forward(from, to net.Conn, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !pass(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
