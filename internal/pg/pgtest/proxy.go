package pgtest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// Loss is what a [Proxy] does to a connection that sends COMMIT.
type Loss int

// The ways in which a COMMIT gets no answer.
const (
	LoseRequest Loss = iota // the server never sees it, and rolls back
	LoseAnswer              // the server has answered it before the connection breaks
	LateRequest             // the connection breaks, and the server sees the COMMIT when Late is closed
)

// A Proxy stands between a pool and its server and breaks connections at their COMMIT.
type Proxy struct {
	Late   chan struct{} // see LateRequest
	server string
	loss   Loss
	most   int32
	broken atomic.Int32
}

// Broken is how many COMMITs have got no answer so far.
func (p *Proxy) Broken() int { return int(p.broken.Load()) }

// LoseCommits is a pool to the database of rawURL whose first most COMMITs get no answer.
func LoseCommits(t testing.TB, rawURL string, l Loss, most int) (*pgxpool.Pool, *Proxy) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: u.Host, loss: l, most: int32(most), Late: make(chan struct{})}
	go p.accept(listener)
	u.Host = listener.Addr().String()
	t.Cleanup(func() { listener.Close() })
	return openPool(t, pg.PoolConfig{URL: u.String(), App: t.Name(), Schema: migrations.Schema, MaxConns: 2, Serializable: true}), p
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
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
		if !bytes.Contains(message, []byte("commit\x00")) || p.broken.Add(1) > p.most {
			return true
		}
		committing.Store(true)
		if p.loss == LateRequest {
			client.Close()
			<-p.Late
		}
		return p.loss != LoseRequest
	})
	if p.loss == LateRequest && committing.Load() {
		io.Copy(io.Discard, server) // let the server answer before the connection ends
	}
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
