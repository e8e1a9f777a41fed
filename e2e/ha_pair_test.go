//go:build ha

package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

const haDatabase = "console"

// A node is one server of a pair.
type node struct {
	*postgres.Server
	dir   string
	super *pgxpool.Pool
}

// A pair is a primary and its standby, without whose word the primary confirms nothing.
type pair struct {
	root             string
	nodes            int
	primary, standby *node
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{root: pgtest.DiskDir(t)}
	p.primary = &node{dir: p.newDir()}
	p.primary.start(t)
	if err := pgtest.Migrate(t.Context(), p.primary.Server, haDatabase); err != nil {
		t.Fatal(err)
	}
	p.primary.connect(t)
	p.addStandby(t)
	return p
}

func (p *pair) newDir() string {
	p.nodes++
	return filepath.Join(p.root, fmt.Sprintf("node-%d", p.nodes))
}

// start starts the server in n.dir, as what its data says it is.
func (n *node) start(t *testing.T) {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: n.dir, Durable: true, Bin: os.Getenv(pgtest.BinVariable), Settings: map[string]string{
		"synchronous_commit": "remote_apply", "wal_keep_size": "512MB", "wal_retrieve_retry_interval": "200ms", "log_min_messages": "fatal"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Kill() })
	n.Server = server
}

func (n *node) connect(t *testing.T) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), n.URL(n.Superuser(), haDatabase))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n.super = pool
}

// address is where the server listens.
func (n *node) address(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(n.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (n *node) timeline(t *testing.T) int {
	t.Helper()
	return pgtest.Value[int](t, n.super, "SELECT timeline_id FROM pg_control_checkpoint()")
}

// addStandby copies the primary, lets the copy follow it, and makes every COMMIT wait for it.
func (p *pair) addStandby(t *testing.T) {
	t.Helper()
	p.standby = &node{dir: p.newDir()}
	p.standby.copyOf(t, p.primary)
	p.standby.start(t)
	p.standby.connect(t)
	pgtest.Exec(t, p.primary.super, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	pgtest.Exec(t, p.primary.super, "SELECT pg_reload_conf()")
	eventually(t, "the standby is synchronous", func() bool {
		return pgtest.Value[int](t, p.primary.super, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'") == 1
	})
}

// promote makes the standby the primary. The old one must be fenced by then.
func (p *pair) promote(t *testing.T) {
	t.Helper()
	if !pgtest.Value[bool](t, p.standby.super, "SELECT pg_promote(true, 30)") {
		t.Fatal("the standby was not promoted within 30 s")
	}
	p.primary.super.Close()
	p.primary, p.standby = p.standby, p.primary
	pgtest.Exec(t, p.primary.super, "CHECKPOINT") // the new timeline is in the control file from here on
}

// rejoin rebuilds the fenced old primary from the new one.
func (p *pair) rejoin(t *testing.T) {
	t.Helper()
	old := p.standby.dir
	p.addStandby(t)
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
}

// copyOf fills n.dir with a base backup of from. The copy follows from when it is started.
func (n *node) copyOf(t *testing.T, from *node) {
	t.Helper()
	copyServer(t, from.Server, n.dir)
	data := filepath.Join(n.dir, "data")
	follow := from.SuperuserURL() + "&application_name=standby"
	if err := errors.Join(write(data, "standby.signal", ""), write(data, "postgresql.auto.conf", fmt.Sprintf("primary_conninfo = '%s'\n", follow))); err != nil {
		t.Fatal(err)
	}
}
