package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// Migrations runs numbered SQL files against one database, one process at a time by an advisory lock.
type Migrations struct {
	provider *goose.Provider
	db       *sql.DB
}

// Migration is one numbered file and whether the database has it.
type Migration struct {
	Version int64
	File    string
	Applied bool
}

// OpenMigrations prepares files for the database of pool, whose role must own the schema; versionTable is where goose
// keeps its record. Close it; pool stays open.
func OpenMigrations(pool *pgxpool.Pool, files fs.FS, versionTable string) (*Migrations, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // asks every second, for five minutes
	if err != nil {
		return nil, err
	}
	store, err := database.NewStore(goose.DialectPostgres, versionTable)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	provider, err := goose.NewProvider("", db, files, goose.WithStore(store), goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Migrations{provider: provider, db: db}, nil
}

// Up applies every migration the database does not have, in order, and returns their file names.
func (m *Migrations) Up(ctx context.Context) ([]string, error) {
	results, err := m.provider.Up(ctx)
	return sources(results), err
}

// Down undoes the newest migration, and returns its file name, or "" when there is none.
func (m *Migrations) Down(ctx context.Context) (string, error) {
	result, err := m.provider.Down(ctx)
	if errors.Is(err, goose.ErrNoNextVersion) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return result.Source.Path, nil
}

// Status lists every migration.
func (m *Migrations) Status(ctx context.Context) ([]Migration, error) {
	rows, err := m.provider.Status(ctx)
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, r := range rows {
		list = append(list, Migration{Version: r.Source.Version, File: r.Source.Path, Applied: r.State == goose.StateApplied})
	}
	return list, nil
}

// Close ends the use of the pool.
func (m *Migrations) Close() error { return m.db.Close() }

// SchemaVersion reads the newest applied version, as any role may.
func SchemaVersion(ctx context.Context, q Querier, versionTable string) (int64, error) {
	var version int64
	err := q.QueryRow(ctx, "SELECT coalesce(max(version_id) FILTER (WHERE is_applied), 0) FROM "+versionTable).Scan(&version)
	if HasCode(err, pgerrcode.UndefinedTable, pgerrcode.InvalidSchemaName) {
		return 0, fmt.Errorf("the database is not prepared: it has no %s; run: console migrate bootstrap, as a superuser: %w", versionTable, err)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", versionTable, err)
	}
	return version, nil
}

func sources(results []*goose.MigrationResult) []string {
	var files []string
	for _, r := range results {
		files = append(files, r.Source.Path)
	}
	return files
}
