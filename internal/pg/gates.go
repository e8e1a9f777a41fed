package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// OldestServer is the oldest supported PostgreSQL, in the form of server_version_num.
const OldestServer = 150000

// CheckServer reports whether q is a writable primary of a supported version. The error says what to do.
func CheckServer(ctx context.Context, q Querier) error {
	var version int
	var standby, readOnly bool
	err := q.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only')::bool`).
		Scan(&version, &standby, &readOnly)
	switch {
	case errors.Is(err, pgconn.ErrReadOnlyConnection): // what a pool says, which keeps no such connection
		return fmt.Errorf("the server takes no writes; connect to the primary, or name every host in the URL, or reset default_transaction_read_only for this role and database: %w", err)
	case err != nil:
		return fmt.Errorf("the database does not answer: %w", err)
	case version < OldestServer:
		return fmt.Errorf("the server is PostgreSQL %d, want 15 or later; upgrade it", version/10000)
	case standby:
		return fmt.Errorf("the server is a standby; connect to the primary, or name every host in the URL")
	case readOnly:
		return fmt.Errorf("transactions are read-only; reset default_transaction_read_only for this role and database")
	}
	return nil
}

// CheckSchema reports whether the database has exactly the migrations up to want.
func CheckSchema(ctx context.Context, q Querier, versionTable string, want int64) error {
	got, err := SchemaVersion(ctx, q, versionTable)
	switch {
	case err != nil:
		return err
	case got < want:
		return fmt.Errorf("the schema is at version %d, this console needs %d; run: console migrate up", got, want)
	case got > want:
		return fmt.Errorf("the schema is at version %d, this console knows %d; run a newer console", got, want)
	}
	return nil
}
