package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

// lookEvery is how often the replicas are looked at that may be gone.
const lookEvery = 250 * time.Millisecond

// replicaFlags are how a change of the schema treats the replicas that run.
type replicaFlags struct {
	WithdrawReplicas bool `help:"Go on although replicas run that the new schema does not take: they stop admitting." env:"-"`
}

// makeRoom sees to it that no replica runs that the schema will not take, or says which ones will withdraw. It is asked
// before anything is changed. One that starts between this and the migration withdraws with its next heartbeat.
func (f replicaFlags) makeRoom(ctx context.Context, w io.Writer, pool *pgxpool.Pool, barred func(scheduler.Running) bool) error {
	if !f.WithdrawReplicas {
		return awaitGone(ctx, w, pool, barred)
	}
	list, err := running(ctx, pool, barred)
	for _, r := range list {
		fmt.Fprintf(w, "%s stops admitting\n", describeReplica(r))
	}
	return err
}

// awaitGone returns when no barred replica runs. One that was stopped counts as running until its last tick is 15 s old,
// and is waited for; one that ticks meanwhile runs, and nothing is changed.
func awaitGone(ctx context.Context, w io.Writer, pool *pgxpool.Pool, barred func(scheduler.Running) bool) error {
	first := map[string]int64{} // the tick at which a replica was seen first
	for ; ctx.Err() == nil; wait(ctx, lookEvery) {
		list, err := running(ctx, pool, barred)
		if err != nil || len(list) == 0 {
			return err
		}
		if len(first) == 0 {
			fmt.Fprintf(w, "looking whether it still runs: %s\n", describeReplicas(list))
		}
		for _, r := range list {
			if r.AgoMS < -time.Minute.Milliseconds() { // a live one would not move it either
				return fmt.Errorf("the last tick of %s is minutes later than the database clock, which went back, so nothing shows whether it runs; make sure that it does not, and go on with --withdraw-replicas", describeReplica(r))
			}
			if seen, ok := first[r.ID]; !ok {
				first[r.ID] = r.LastTickMS
			} else if r.LastTickMS > seen {
				return fmt.Errorf("the schema would not take what runs: %s; stop it and try again, or let it withdraw: --withdraw-replicas", describeReplicas(list))
			}
		}
	}
	return ctx.Err()
}

func running(ctx context.Context, pool *pgxpool.Pool, barred func(scheduler.Running) bool) ([]scheduler.Running, error) {
	list, err := scheduler.ListRunning(ctx, pool)
	return slices.DeleteFunc(list, func(r scheduler.Running) bool { return !barred(r) }), err
}

func describeReplicas(list []scheduler.Running) string {
	var each []string
	for _, r := range list {
		each = append(each, describeReplica(r))
	}
	return strings.Join(each, ", ")
}

func describeReplica(r scheduler.Running) string {
	schema := "a schema before 9"
	if r.Schema != nil {
		schema = fmt.Sprintf("schema %d", *r.Schema)
	}
	return fmt.Sprintf("replica %s (version %s, built for %s)", visible(r.ID), visible(r.Version), schema)
}

// describeSchema says, a line each, what is there and which replicas work on it.
func describeSchema(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	version, err := pg.SchemaVersion(ctx, pool, migrations.VersionTable)
	if err != nil {
		return nil, err
	}
	floor, err := pg.SchemaFloor(ctx, pool, migrations.FloorTable)
	if pg.HasCode(err, pgerrcode.UndefinedTable) {
		floor, err = version, nil // it says nothing, and takes its own consoles alone
	}
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("schema %d takes consoles built for %d or later; this one was built for %d", version, floor, migrations.Latest())}
	list, err := scheduler.ListRunning(ctx, pool)
	for _, r := range list {
		lines = append(lines, fmt.Sprintf("%s was seen %v ago", describeReplica(r), time.Duration(r.AgoMS)*time.Millisecond))
	}
	return lines, err
}
