package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrOutcomeUnknown reports that COMMIT was sent and its answer was lost. The transaction may have committed, may not
// have, or may still do so: only a new transaction that first takes the same row lock can tell.
var ErrOutcomeUnknown = errors.New("the outcome of the transaction is unknown")

// RolledBack reports whether err is the server's word that it rolled the transaction back because of others (40001
// serialization failure, 40P01 deadlock), so that running all of it again is right.
func RolledBack(err error) bool {
	return HasCode(err, pgerrcode.SerializationFailure, pgerrcode.DeadlockDetected)
}

// Refused reports whether err is the server's word that it refuses what a statement was to write, and has rolled it back: a
// value (class 22), a constraint (class 23), or an exception that one of the database's own functions raised (P0001). What
// else the transaction was to write may be welcome without it.
func Refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23") || e.Code == pgerrcode.RaiseException)
}

// HasCode reports whether err is a server error with one of the SQLSTATE codes.
func HasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, e.Code)
}

// Constraint returns the name of the constraint that err says was violated, or "".
func Constraint(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.ConstraintName
	}
	return ""
}

// certainlyRolledBack tells the answers to a COMMIT that leave no doubt from those that do: the server answered with an
// ERROR, or it answered ROLLBACK. pgconn.SafeToRetry is no help: pgx says it of a connection that broke after COMMIT
// was sent.
func certainlyRolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// Unavailable reports whether err means that this database cannot be worked with now: no connection, for whatever
// reason, a server that is starting, stopping or was failed over (class 08, 57P01 to 57P04), or a primary that has
// become read-only. A deadline that passed counts, whoever set it, the server's own (57014) too; a caller that went away
// does not, though pgx reports it in the same types.
func Unavailable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "57P0") ||
			e.Code == pgerrcode.ReadOnlySQLTransaction || e.Code == pgerrcode.TooManyConnections || e.Code == pgerrcode.QueryCanceled
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}

// Wrap adds what was being done to *err, once, in the exported function that ran the query.
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}
