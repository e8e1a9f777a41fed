// Package executor runs Tasks on this machine, for `console dev` alone: it stands where a cluster's workers will.
//
// It takes pristine admitted Runs through the lease columns a worker uses, runs the pinned command with the Task's own
// environment and nothing of this process's, and records every move through internal/run. It has no secret store, so a
// Task that refers to a secret fails with secret_unavailable before anything is started.
package executor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
)

const queryTimeout = 5 * time.Second

// errCancelled is why a command was stopped that somebody has asked to cancel.
var errCancelled = errors.New("cancellation was requested")

// Config is everything an Executor needs. Durations may be zero, which means the default.
type Config struct {
	Pool  *pgxpool.Pool // of role ql3_runtime
	Name  string        // the worker's name on the Attempts
	Slots int           // commands at a time
	Log   *slog.Logger
	// Changed is told of every move of a Run; may be nil.
	Changed func()

	Lease      time.Duration // how long the database lets the worker be silent, default 15 s
	RenewEvery time.Duration // default 1 s, which is how soon a request to stop is heard; well below Lease
	PollEvery  time.Duration // between two looks for work when there is none, default 200 ms
	TermGrace  time.Duration // between SIGTERM and SIGKILL, default 5 s
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.RenewEvery = cmp.Or(c.RenewEvery, time.Second)
	c.PollEvery = cmp.Or(c.PollEvery, 200*time.Millisecond)
	c.TermGrace = cmp.Or(c.TermGrace, 5*time.Second)
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return c
}

// Run takes and executes Runs until ctx ends, then terminates the commands in hand, records that, and returns.
func Run(ctx context.Context, c Config) {
	c = c.withDefaults()
	var slots sync.WaitGroup
	for range c.Slots {
		slots.Go(func() { c.work(ctx) })
	}
	slots.Wait()
}

func (c Config) work(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.next(ctx)
		if err != nil && !errors.Is(err, run.ErrNoWork) && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "executor", "err", err)
		}
		if err != nil {
			sleep(ctx, c.PollEvery)
		}
	}
}

// next executes one Run, or returns [run.ErrNoWork]. What was asked to stop before it began is ended first.
func (c Config) next(ctx context.Context) error {
	dispatchCtx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if _, err := run.CancelQueued(dispatchCtx, c.Pool, c.Name); err != nil {
		return err
	}
	w, err := run.Dispatch(dispatchCtx, c.Pool, c.Name, c.Lease)
	if err != nil {
		return err
	}
	c.Changed()
	defer c.Changed()
	outcome, err := c.execute(ctx, w)
	if err != nil {
		return err
	}
	finishCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	return run.Finish(finishCtx, c.Pool, w.Lease, outcome)
}

// execute says how the Run ended. An error means that the Run is no longer ours to say.
func (c Config) execute(ctx context.Context, w run.Work) (run.Outcome, error) {
	plan, err := catalog.ReadExecution(ctx, c.Pool, w.ProjectID, w.TaskID, w.TaskRevision)
	switch {
	case ctx.Err() != nil:
		return stopped, nil
	case err != nil:
		c.Log.ErrorContext(ctx, "execution revision unusable", "run", w.RunID, "err", err)
		return run.Outcome{Status: run.Failed, Code: "execution_unusable", Summary: "the execution revision cannot be read or does not match its digest"}, nil
	}
	if name := secretIn(plan); name != "" {
		return run.Outcome{Status: run.Failed, Code: "secret_unavailable", Summary: "the local executor has no secret store; " + name + " refers to a secret"}, nil
	}
	if err := run.Start(ctx, c.Pool, w.Lease, plan.Timeout()); err != nil {
		if ctx.Err() != nil {
			return stopped, nil // whether Start arrived or not, Finish may follow
		}
		return run.Outcome{}, err
	}
	c.Changed()
	return c.attend(ctx, w.Lease, plan), nil
}

// attend runs the command for as long as the lease is held. Without it the outcome means nothing, and Finish refuses it.
func (c Config) attend(ctx context.Context, l run.Lease, plan catalog.Execution) run.Outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(ctx, l, cancel) })
	outcome := command(ctx, plan, c.TermGrace)
	cancel(nil)
	renewing.Wait()
	return outcome
}

// renew keeps the lease until ctx ends, and ends ctx when the lease is lost or somebody asks to cancel the Run.
func (c Config) renew(ctx context.Context, l run.Lease, cancel context.CancelCauseFunc) {
	for sleep(ctx, c.RenewEvery); ctx.Err() == nil; sleep(ctx, c.RenewEvery) {
		renewCtx, done := context.WithTimeout(ctx, queryTimeout)
		cancelled, err := run.Renew(renewCtx, c.Pool, l, c.Lease)
		done()
		if errors.Is(err, run.ErrLost) {
			cancel(run.ErrLost)
		}
		if cancelled {
			cancel(errCancelled)
		}
	}
}

// secretIn names the first environment variable whose value is a secret reference, or returns "".
func secretIn(plan catalog.Execution) string {
	for name, value := range plan.Env {
		if catalog.IsReference(value) {
			return name
		}
	}
	return ""
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
