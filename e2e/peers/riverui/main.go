// Command riverui is the console of a team that picks River, over as many jobs as it is told: what a page of ours is
// compared with. It fills the database, prints the address at which it listens, and answers until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"riverqueue.com/riverui"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "riverui:", err)
		os.Exit(1)
	}
}

// fillSQL makes $1 jobs of the last thirty days: of each hundred 4 have failed for good, the others are done.
const fillSQL = `
INSERT INTO river_job (state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, kind, queue, attempted_by)
SELECT CASE WHEN n % 25 = 0 THEN 'discarded' ELSE 'completed' END::river_job_state, 1, 25, at, at, at + interval '1 second', at, 1,
    jsonb_build_object('trigger', 't-' || n % 10000, 'scheduled_for_ms', n), 'occurrence-' || n % 100, 'default', ARRAY['worker']
FROM (SELECT n, now() - interval '30 days' * (1 - n::float8 / $1::int) AS at FROM generate_series(1, $1::int) n) x`

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: riverui COUNT DATABASE-URL")
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, args[1])
	if err != nil {
		return err
	}
	defer pool.Close()
	driver, quiet := riverpgxv5.New(pool), slog.New(slog.DiscardHandler)
	if err := fill(ctx, pool, driver, quiet, count); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{Logger: quiet})
	if err != nil {
		return err
	}
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: quiet})
	if err != nil {
		return err
	}
	if err := handler.Start(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, handler)
}

func fill(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver, quiet *slog.Logger, count int) error {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, fillSQL, count); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "VACUUM ANALYZE river_job")
	return err
}
