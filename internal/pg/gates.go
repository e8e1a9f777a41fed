package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// OldestServer is the oldest supported PostgreSQL, in the form of server_version_num.
const OldestServer = 150000

// ErrNoAnswer is that nothing can be known about the server: whatever else is asked of it fails as well.
var ErrNoAnswer = errors.New("the database does not answer")

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
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case version < OldestServer:
		return fmt.Errorf("the server is PostgreSQL %d, want 15 or later; upgrade it", version/10000)
	case standby:
		return fmt.Errorf("the server is a standby; connect to the primary, or name every host in the URL")
	case readOnly:
		return fmt.Errorf("transactions are read-only; reset default_transaction_read_only for this role and database")
	}
	return nil
}

// A Schema is what a program was built for, and where the database says what it has.
type Schema struct {
	Name         string
	Version      int64  // of the newest migration that the program knows
	VersionTable string // goose's
	FloorTable   string // version, floor: on that version, programs built for floor or later work
	// Objects are what that version holds: "table", "table.column", "function(types)", "sequence name". What else a newer
	// one holds is no business of this program's.
	Objects []string
}

// Check reports whether the program works on the schema that is there: on its own, and on a newer one that still takes
// it. It never works on an older one.
func (s Schema) Check(ctx context.Context, q Querier) error {
	got, err := SchemaVersion(ctx, q, s.VersionTable)
	switch {
	case err != nil:
		return err
	case got == s.Version:
		return nil
	case got < s.Version:
		return fmt.Errorf("the schema is at version %d, this console needs %d; run: console migrate up", got, s.Version)
	}
	floor, err := SchemaFloor(ctx, q, s.FloorTable)
	if err != nil {
		return err
	}
	return s.Takes(floor)
}

// Takes reports whether a schema of that floor takes the program.
func (s Schema) Takes(floor int64) error {
	if floor > s.Version {
		return fmt.Errorf("the schema takes consoles that were built for version %d or later, this one was built for %d; run a newer console", floor, s.Version)
	}
	return nil
}

// SchemaFloor reads the oldest version whose programs still work, as any role may.
func SchemaFloor(ctx context.Context, q Querier, floorTable string) (int64, error) {
	var floor int64
	if err := q.QueryRow(ctx, "SELECT max(floor) FROM "+floorTable).Scan(&floor); err != nil {
		return 0, fmt.Errorf("read %s: %w", floorTable, err)
	}
	return floor, nil
}
