// Command river does a burst the way of a team that picks River: each job is unique by its arguments. It is a module of
// its own so that the console depends on none of this.
//
// It prints one line: how many jobs it inserted, and the milliseconds that took by the database clock.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	perCall   = 16
	callers   = 4 // as many connections as one replica of the console has
	elsewhere = "elsewhere"
)

// Args are what a cron would hand on: which occurrence this is.
type Args struct {
	Trigger     string `json:"trigger"`
	ScheduledMS int64  `json:"scheduled_for_ms"`
}

// Kind names the jobs.
func (Args) Kind() string { return "occurrence" }

// InsertOpts makes every occurrence a job once.
func (Args) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

type worker struct{ river.WorkerDefaults[Args] }

func (worker) Work(context.Context, *river.Job[Args]) error { return nil }

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: river bulk|sixteen|single|periodic COUNT DATABASE-URL")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(args[2])
	if err != nil {
		return err
	}
	config.MaxConns = callers + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if args[0] == "periodic" {
		return periodic(ctx, pool, driver, count)
	}
	return insert(ctx, pool, driver, args[0], count)
}

// insert inserts count jobs and reports.
func insert(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver, how string, count int) error {
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		return err
	}
	jobs := make([]river.InsertManyParams, count)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: Args{Trigger: fmt.Sprintf("t-%05d", i), ScheduledMS: 1}}
	}
	begin, err := clock(ctx, pool)
	if err != nil {
		return err
	}
	switch how {
	case "bulk":
		_, err = client.InsertManyFast(ctx, jobs)
	case "sixteen":
		err = shared(jobs, perCall, func(part []river.InsertManyParams) error {
			_, err := client.InsertMany(ctx, part)
			return err
		})
	case "single":
		err = shared(jobs, 1, func(part []river.InsertManyParams) error {
			_, err := client.Insert(ctx, part[0].Args, nil)
			return err
		})
	default:
		err = fmt.Errorf("no such way: %s", how)
	}
	if err != nil {
		return err
	}
	end, err := clock(ctx, pool)
	if err == nil {
		fmt.Println(count, end-begin)
	}
	return err
}

// shared has the callers insert all jobs, size at a time.
func shared(jobs []river.InsertManyParams, size int, call func([]river.InsertManyParams) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		group.Go(func() {
			for errs[c] == nil {
				from := int(next.Add(int64(size))) - size
				if from >= len(jobs) {
					return
				}
				errs[c] = call(jobs[from:min(from+size, len(jobs))])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// once is a schedule that is due at one instant.
type once struct{ at time.Time }

func (o once) Next(t time.Time) time.Time {
	if t.Before(o.at) {
		return o.at
	}
	return o.at.AddDate(1, 0, 0)
}

// periodic makes count periodic jobs due at one instant, which nobody works on, and waits until all are inserted.
func periodic(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver, count int) error {
	due := time.Now().Add(20 * time.Second).Truncate(time.Second)
	jobs := make([]*river.PeriodicJob, count)
	for i := range jobs {
		a := Args{Trigger: fmt.Sprintf("t-%05d", i), ScheduledMS: due.UnixMilli()}
		jobs[i] = river.NewPeriodicJob(once{due}, func() (river.JobArgs, *river.InsertOpts) { return a, &river.InsertOpts{Queue: elsewhere} }, nil)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker{})
	client, err := river.NewClient(driver, &river.Config{PeriodicJobs: jobs, Workers: workers, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	end, err := inserted(ctx, pool, count, due)
	if err != nil {
		return err
	}
	fmt.Println(count, end-due.UnixMilli())
	return client.StopAndCancel(ctx)
}

// inserted is when count jobs were there.
func inserted(ctx context.Context, pool *pgxpool.Pool, count int, due time.Time) (int64, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	<-time.After(time.Until(due))
	for deadline := due.Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		var n int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job").Scan(&n); err != nil {
			return 0, err
		}
		if n >= count {
			return clock(ctx, pool)
		}
	}
	return 0, fmt.Errorf("not all of %d jobs were inserted in two minutes", count)
}

// clock is the database's.
func clock(ctx context.Context, pool *pgxpool.Pool) (ms int64, err error) {
	rows, err := pool.Query(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}
