//go:build torture

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// A database is one server that is killed and started again on the same directory and port.
type database struct {
	config postgres.Config
	disk   *disk  // nil: it is on no disk of its own
	noDisk string // why not
	vars   map[string]string
	super  *pgxpool.Pool // directly to the server
	server *postgres.Server
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	dir := pgtest.DiskDir(t)
	d := &database{}
	var err error
	if d.disk, err = newDisk(t, dir); err != nil {
		d.noDisk = err.Error()
	}
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "postgres.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	d.config = postgres.Config{Dir: filepath.Join(dir, "postgres"), Durable: true, Bin: os.Getenv(pgtest.BinVariable), Log: log, Settings: map[string]string{
		"max_connections": "400", "shared_buffers": "64MB", "min_wal_size": "64MB", "max_wal_size": "128MB", "log_min_messages": "fatal", "log_line_prefix": "%m [%p] "}}
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.server.Kill() })
	if d.config.Port, err = strconv.Atoi(d.url(t).Port()); err != nil {
		t.Fatal(err)
	}
	d.vars, d.super = install(t, d.server, "postgres"), superOf(t, d.server, "postgres")
	return d
}

func (d *database) url(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(d.server.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// start starts the server, which recovers what a crash left.
func (d *database) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	server, err := postgres.Start(ctx, d.config)
	if err == nil {
		d.server = server
	}
	return err
}

// suffer carries out a fault of the server. It ends with the server up.
func (d *database) suffer(ctx context.Context, s move) error {
	switch s.Do {
	case doTerminate:
		return d.terminate(ctx, s)
	case doCrash:
		if err := d.server.Kill(); err != nil {
			return err
		}
		<-time.After(s.For)
		return d.start(ctx)
	}
	return d.full(ctx, s)
}

// terminate ends every connection of one role, or of all.
func (d *database) terminate(ctx context.Context, s move) error {
	roles := []string{"ql3_runtime", "ql3_run_manager", "ql3_authn", "ql3_console", "ql3_admin", "ql3_%"}
	_, err := d.super.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE $1`, roles[s.Dice%uint64(len(roles))])
	return err
}

// full leaves no room on the disk for a while. A server without room for its WAL ends, and is started again.
func (d *database) full(ctx context.Context, s move) error {
	if d.disk == nil {
		return nil
	}
	if err := d.disk.fill(); err != nil {
		return err
	}
	end := time.After(s.For)
	if s.Do == doDiskWAL {
		d.useUpWAL(ctx)
	}
	<-end
	if err := d.disk.free(); err != nil {
		return err
	}
	return d.revive(ctx)
}

// useUpWAL makes the server need more files for its WAL than it has at hand.
func (d *database) useUpWAL(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for range 12 { // until it fails, which is what this is for
		if _, err := d.super.Exec(ctx, `SELECT pg_logical_emit_message(false, 'torture', 'full'), pg_switch_wal()`); err != nil {
			return
		}
	}
}

// revive starts the server if it has ended by itself, once it has had the time to try.
func (d *database) revive(ctx context.Context) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		select {
		case <-d.server.Done():
			return d.start(ctx)
		default:
		}
		if d.ping(ctx) == nil {
			return nil
		}
	}
	return fmt.Errorf("the server does not come back: %w", d.ping(ctx))
}

func (d *database) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return d.super.Ping(ctx)
}
