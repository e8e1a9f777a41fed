package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	operationTimeout = 5 * time.Second // for a caller that brings no deadline
	commitTimeout    = 5 * time.Second // statement_timeout does not bound a COMMIT that waits for a standby
	rollbackTimeout  = 2 * time.Second
	firstPause       = 2 * time.Millisecond
	longestPause     = 100 * time.Millisecond
)

// Beginner begins transactions: a pool, or one connection of it that holds a session's advisory lock.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// InTx runs fn in a SERIALIZABLE transaction and commits it. When the server reports a serialization failure or a
// deadlock, which it reports only for a transaction it has rolled back, the whole of fn runs again in a new
// transaction, with jitter, until ctx's deadline (5 s if it has none). fn must touch nothing but tx.
//
// A COMMIT that got no answer is [ErrOutcomeUnknown] and is not repeated.
func InTx(ctx context.Context, pool Beginner, fn func(tx pgx.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var conflict error // why there is another try
	for try := 0; ; try++ {
		err := once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, fn)
		if !RolledBack(err) {
			return outOfTime(err, conflict)
		}
		conflict = err
		if err := Pause(ctx, try); err != nil {
			return outOfTime(err, conflict)
		}
	}
}

// outOfTime adds what the time was spent on to an error that says it is over.
func outOfTime(err, conflict error) error {
	if conflict == nil || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w, after %w", err, conflict)
}

// TryTx is [InTx] without repetition: for a caller that does something else with a serialization failure.
func TryTx(ctx context.Context, pool Beginner, fn func(tx pgx.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, fn)
}

// ReadTx runs fn in one read-only snapshot: everything it reads is of one instant.
func ReadTx(ctx context.Context, pool Beginner, fn func(tx pgx.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, operationTimeout)
}

func once(ctx context.Context, pool Beginner, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	tx, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer rollback(ctx, tx) // does nothing after a COMMIT
	if err := fn(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commit outlives ctx's cancellation, for a while: to give up on a COMMIT in flight is to lose its answer.
func commit(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	neverSent := tx.Conn().PgConn().IsClosed() // asked before: an error that comes after does not tell
	err := tx.Commit(ctx)
	if err == nil || neverSent || certainlyRolledBack(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	tx.Rollback(ctx) // an error closes the connection, and the server then rolls back by itself
}

// Pause waits a random while before try is repeated, longer with each try, and returns ctx's error if it ends first.
func Pause(ctx context.Context, try int) error {
	longest := min(firstPause<<min(try, 10), longestPause)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithAdvisoryLock calls fn with a connection that holds the session's advisory lock key, for which it waits at most
// patience; after that it calls fn without. The lock only saves conflicts: fn must be right without it.
func WithAdvisoryLock(ctx context.Context, pool *pgxpool.Pool, key int64, patience time.Duration, fn func(Beginner) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	defer conn.Release()
	locked, err := advisoryLock(ctx, conn, key, patience)
	if err != nil {
		return err
	}
	if locked {
		defer advisoryUnlock(ctx, conn, key)
	}
	return fn(conn)
}

// advisoryLock waits in its own statement, before any snapshot is taken. The timeout is the session's, and is reset.
func advisoryLock(ctx context.Context, conn *pgxpool.Conn, key int64, patience time.Duration) (bool, error) {
	if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", milliseconds(patience)); err != nil {
		return false, fmt.Errorf("set lock_timeout: %w", err)
	}
	_, lockErr := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key)
	if lockErr != nil && !HasCode(lockErr, pgerrcode.LockNotAvailable) {
		return false, fmt.Errorf("advisory lock: %w", lockErr)
	}
	if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', '0', false)"); err != nil {
		return false, fmt.Errorf("reset lock_timeout: %w", err)
	}
	return lockErr == nil, nil
}

// advisoryUnlock closes the connection if it cannot give the lock back: the server then does.
func advisoryUnlock(ctx context.Context, conn *pgxpool.Conn, key int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", key); err != nil {
		closeConn(ctx, conn.Conn())
	}
}
