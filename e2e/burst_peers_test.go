package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Where the peers' programs are; .ci/setup --print-peers says it.
const (
	riverVariable  = "BURST_RIVER"
	workerVariable = "BURST_WORKER"
)

// peer has a peer do the same job, in a database of its own on the same server, and takes its word for the time, which is
// by the database clock.
func (x *burst) peer(t testing.TB, variable string, args ...string) measure {
	t.Helper()
	peer := os.Getenv(variable)
	if peer == "" {
		t.Fatalf("%s is not set: make bench-burst sets it", variable)
	}
	c := x.copy(t, "template1")
	args = append(args, strconv.Itoa(x.size), x.server.URL(x.server.Superuser(), c.name))
	cmd := command(peer, nil, args...)
	var p *program
	m := x.during(t, c, nil, func() { p = finish(t, peer, cmd) })
	m.client = p.cpu()
	var ms int64
	if _, err := fmt.Sscan(p.output.String(), &m.count, &ms); err != nil || m.count != x.size {
		t.Fatalf("%s printed %q, %v", peer, p.output, err)
	}
	m.elapsed = time.Duration(ms) * time.Millisecond
	return m
}
