package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// NotifyChannel is notified, in the transaction, when a publication may have
// made a Schedule due. It is a hint for replicas and never needed.
const NotifyChannel = "ql3_schedules"

// publishTimeout bounds the publication of one Project, repetitions included.
const publishTimeout = 30 * time.Second

// Options say how a manifest is applied.
type Options struct {
	DryRun bool // tell what would change, in a read-only transaction
}

// Apply publishes a manifest, as role ql3_admin, and returns what changed, one
// entry a Project, in the manifest's order. Each Project is one SERIALIZABLE
// transaction: all of it is published or nothing. Unchanged content writes
// nothing. What the manifest omits stays, except that every Trigger of a
// changed Task is pinned to the Task's new revision.
//
// An error of type [Mistakes] is found before anything is changed. After any
// other error the returned changes are those of the Projects that were
// published before it; applying the manifest again does the rest.
func Apply(ctx context.Context, pool *pgxpool.Pool, m Manifest, opt Options) ([]ProjectChange, error) {
	planned, err := planAll(ctx, pool, m)
	if err != nil || opt.DryRun {
		return planned, err
	}
	var done []ProjectChange
	for i, p := range m.Projects {
		change := planned[i]
		if !change.Empty() {
			change, err = publish(ctx, pool, m.File, p)
		}
		if err != nil {
			return done, fmt.Errorf("publish project %s: %w", p.ID, err)
		}
		done = append(done, change)
	}
	return done, nil
}

// planAll plans every Project over one snapshot and collects all mistakes.
func planAll(ctx context.Context, pool *pgxpool.Pool, m Manifest) (changes []ProjectChange, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err = pg.ReadTx(ctx, pool, func(tx pgx.Tx) error {
		var mistakes Mistakes
		for _, p := range m.Projects {
			to, err := planOne(ctx, tx, m.File, p)
			if found, ok := errors.AsType[Mistakes](err); ok {
				mistakes = append(mistakes, found...)
				continue
			}
			if err != nil {
				return fmt.Errorf("plan project %s: %w", p.ID, err)
			}
			changes = append(changes, to.change)
		}
		return mistakes.err()
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

func planOne(ctx context.Context, q pg.Querier, file string, p Project) (publication, error) {
	from, err := load(ctx, q, p.ID)
	if err != nil {
		return publication{}, err
	}
	return plan(file, p, from)
}

// publish publishes one Project. If nobody knows whether it committed, doing it
// again settles that: the second transaction takes the same row lock, so it
// waits for the first, and finds nothing to change if that committed.
func publish(ctx context.Context, pool *pgxpool.Pool, file string, p Project) (ProjectChange, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	change, err := publishOnce(ctx, pool, file, p)
	if !errors.Is(err, pg.ErrOutcomeUnknown) {
		return change, err
	}
	again, err := publishOnce(ctx, pool, file, p)
	if err == nil && again.Empty() {
		return change, nil
	}
	return again, err
}

func publishOnce(ctx context.Context, pool *pgxpool.Pool, file string, p Project) (change ProjectChange, err error) {
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		to, err := planOne(ctx, tx, file, p)
		if err != nil {
			return err
		}
		change = to.change
		if change.Empty() {
			return nil
		}
		nowMS, err := lock(ctx, tx, to)
		if err != nil {
			return err
		}
		return write(ctx, tx, to, nowMS)
	})
	return change, err
}
