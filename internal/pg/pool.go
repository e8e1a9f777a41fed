// Package pg is the plumbing between the console and PostgreSQL: one small pool per database role, transactions that
// are serializable and repeated only when the server says they were rolled back, error classes, migrations and LISTEN.
//
// It knows no table. Two rules live here and nowhere else:
//
//   - The database clock is the only clock with authority; [ClockMS] is the one way to read it.
//   - A transaction whose COMMIT got no answer is neither committed nor rolled back: [InTx] reports
//     [ErrOutcomeUnknown] and never repeats it. Its caller settles it from durable facts.
package pg

import (
	"context"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ClockMS is the SQL expression for the database clock in whole milliseconds since the Unix epoch, never in the future.
// It is clock_timestamp(), not now(): read over a locked row it is not as old as the wait for the lock.
const ClockMS = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// Querier is what a query needs. *pgxpool.Pool and pgx.Tx both satisfy it.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// PoolConfig says how one role connects.
type PoolConfig struct {
	URL              string // postgres:// URL of the role; may name several hosts
	App              string // application_name, seen in pg_stat_activity
	Schema           string // search_path
	MaxConns         int32
	StatementTimeout time.Duration
	LockTimeout      time.Duration // how long a statement waits for a lock; 0 is for as long as it may take at all
	// Serializable tells that this pool's transactions are SERIALIZABLE and read in index order: sequential scans would
	// take predicate locks on whole relations, and bitmaps on whole pages. A claim that sorts reads everything that is due, so joins are done in the order they are written.
	Serializable bool
	// Lost is told when a connection that lay idle turns out to be dead. May be nil.
	Lost func(error)
}

const (
	connectTimeout  = 5 * time.Second
	idleTransaction = 5 * time.Second // a frozen transaction must not hold a row past its lease
	healthCheck     = 5 * time.Second // how soon a dead idle connection is noticed
	connLifetime    = 30 * time.Minute
	trustIdle       = 500 * time.Millisecond // a connection idle for longer is pinged before it is used
	pingTimeout     = 2 * time.Second
	keepAlive       = 15 * time.Second
)

// Open makes the pool of one role. It waits for no connection: the pool makes its first one by itself, or fails to, and
// the first use reports that. Only servers that take writes are connected to, whichever of the URL's hosts that is now.
func Open(ctx context.Context, c PoolConfig) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, redactedURLError(err)
	}
	cfg.MaxConns = c.MaxConns
	cfg.MinIdleConns = 1
	cfg.HealthCheckPeriod = healthCheck
	cfg.MaxConnLifetime = connLifetime
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.DialFunc = (&net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}).DialContext
	cfg.PingTimeout = pingTimeout
	cfg.ShouldPing = shouldPing(c.Lost)
	writableOnly(&cfg.ConnConfig.Config)
	maps.Copy(cfg.ConnConfig.RuntimeParams, runtimeParams(c))
	return pgxpool.NewWithConfig(ctx, cfg)
}

// writableOnly is target_session_attrs=read-write, unless the URL asks for something else.
func writableOnly(c *pgconn.Config) {
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// shouldPing pings what lay idle, and tells lost when there is no answer. It asks the pool for a second ping only then:
// that one fails too, and makes the pool drop the connection.
func shouldPing(lost func(error)) func(context.Context, pgxpool.ShouldPingParams) bool {
	return func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		if p.IdleDuration < trustIdle {
			return false
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		err := p.Conn.Ping(ctx)
		if err != nil && lost != nil {
			lost(fmt.Errorf("an idle connection is dead: %w", err))
		}
		return err != nil
	}
}

func runtimeParams(c PoolConfig) map[string]string {
	params := map[string]string{
		"application_name":                    c.App,
		"search_path":                         c.Schema,
		"timezone":                            "UTC",
		"jit":                                 "off", // the price set on a forbidden plan node looks like a query worth compiling for half a second
		"idle_in_transaction_session_timeout": milliseconds(idleTransaction),
		"statement_timeout":                   milliseconds(c.StatementTimeout),
		"lock_timeout":                        milliseconds(c.LockTimeout),
		"plan_cache_mode":                     "force_generic_plan", // a plan for each execution takes longer than most of them, and none rests on a value
	}
	if c.Serializable {
		params["enable_seqscan"] = "off"
		params["enable_bitmapscan"] = "off"
		params["enable_sort"] = "off"
		params["join_collapse_limit"] = "1"
	}
	return params
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d", d.Milliseconds()) }

// User returns the user name in a connection URL, and an error that does not repeat the URL.
func User(url string) (user, password string, err error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return "", "", redactedURLError(err)
	}
	return cfg.User, cfg.Password, nil
}

// redactedURLError drops pgx's message, which repeats the connection string.
func redactedURLError(error) error {
	return fmt.Errorf("not a PostgreSQL connection URL (want postgres://USER:PASSWORD@HOST:PORT/DATABASE)")
}
