package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

type migrateCmd struct {
	Bootstrap bootstrapCmd `cmd:"" help:"Once, as superuser: make the roles, the schema and the version table, or print the SQL for it."`
	Up        upCmd        `cmd:"" help:"Apply every migration the database does not have."`
	Down      downCmd      `cmd:"" help:"Undo the newest migration. Data of its tables is lost."`
	Status    statusCmd    `cmd:"" help:"List the migrations and which are applied, which consoles the schema takes, and which run."`
}

type bootstrapCmd struct {
	Print bool `help:"Print the SQL and change nothing, for somebody else to run." env:"-"`
}

// Run makes the roles with the passwords of the CONSOLE_*_DATABASE_URL variables.
func (c bootstrapCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	super, err := superuserVariable.read(e.getenv)
	if err != nil {
		return usageError{err}
	}
	if super == "" && !c.Print {
		return usage("%s is not set. Set it to a superuser's URL of the console's database, or use --print and have the SQL run there", superuserVariable.name)
	}
	sql, err := bootstrapSQL(urls)
	if err != nil {
		return err
	}
	if c.Print {
		_, err := fmt.Fprint(e.stdout, sql)
		return err
	}
	if err := bootstrap(ctx, super.reveal(), sql); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, "roles, schema and version table are there; next: console migrate up")
	return err
}

// bootstrapSQL takes each role's password from its URL, so that no secret is named twice.
func bootstrapSQL(urls databases) (string, error) {
	passwords := map[string]string{}
	for role, url := range urls {
		_, password, err := pg.User(url.reveal())
		if err != nil {
			return "", err
		}
		passwords[role] = password
	}
	return migrations.Bootstrap(passwords)
}

func bootstrap(ctx context.Context, superuserURL, sql string) error {
	if _, _, err := pg.User(superuserURL); err != nil {
		return usage("%s: %w", superuserVariable.name, err)
	}
	conn, err := pgx.Connect(ctx, superuserURL)
	if err != nil {
		return fmt.Errorf("connect as superuser: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// withMigrations runs fn as the schema's owner.
func withMigrations(ctx context.Context, urls databases, fn func(*pgxpool.Pool, *pg.Migrations) error) error {
	pool, err := urls.open(ctx, migrations.RoleMigration, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := pg.OpenMigrations(pool, migrations.Files(), migrations.VersionTable)
	if err != nil {
		return err
	}
	return errors.Join(fn(pool, m), m.Close())
}

// knownSchema reads the schema's version, which must be one that this console knows.
func knownSchema(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	version, err := pg.SchemaVersion(ctx, pool, migrations.VersionTable)
	if err == nil && version > migrations.Latest() {
		err = fmt.Errorf("the schema is at version %d, this console knows %d; run a newer console", version, migrations.Latest())
	}
	return version, err
}

type upCmd struct{ replicaFlags }

// Run applies what is missing and names each file.
func (c upCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(pool *pgxpool.Pool, m *pg.Migrations) error {
		version, err := knownSchema(ctx, pool)
		if err != nil {
			return err
		}
		if version == migrations.Latest() {
			_, err := fmt.Fprintln(e.stdout, "nothing to apply")
			return err
		}
		if err := c.makeRoom(ctx, e.stdout, pool, func(r scheduler.Running) bool { return r.Below(migrations.Floor()) }); err != nil {
			return err
		}
		files, err := m.Up(ctx)
		for _, f := range files {
			fmt.Fprintln(e.stdout, "applied", f)
		}
		return explainLock(err)
	})
}

// explainLock says what to do about a migration that gave up on a lock.
func explainLock(err error) error {
	if pg.HasCode(err, pgerrcode.LockNotAvailable) {
		return fmt.Errorf("%w; somebody holds a table for longer than %v (pg_stat_activity says who): the file was not applied, try again", err, lockTimeout)
	}
	return err
}

type downCmd struct{ replicaFlags }

// Run undoes one migration.
func (c downCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(pool *pgxpool.Pool, m *pg.Migrations) error {
		version, err := knownSchema(ctx, pool)
		if err != nil {
			return err
		}
		if err := c.makeRoom(ctx, e.stdout, pool, func(r scheduler.Running) bool { return !r.Below(version) || r.Schema == nil }); err != nil {
			return err
		}
		file, err := m.Down(ctx)
		if err != nil {
			return explainLock(err)
		}
		if file == "" {
			_, err = fmt.Fprintln(e.stdout, "nothing to undo")
			return err
		}
		_, err = fmt.Fprintln(e.stdout, "undone", file)
		return err
	})
}

type statusCmd struct{}

// Run lists every migration that this console knows, and who works on the schema.
func (statusCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(pool *pgxpool.Pool, m *pg.Migrations) error {
		if _, err := pg.SchemaVersion(ctx, pool, migrations.VersionTable); err != nil {
			return err
		}
		list, err := m.Status(ctx)
		for _, f := range list {
			state := "pending"
			if f.Applied {
				state = "applied"
			}
			fmt.Fprintf(e.stdout, "%-8s %s\n", state, f.File)
		}
		if err != nil {
			return err
		}
		lines, err := describeSchema(ctx, pool)
		for _, l := range lines {
			fmt.Fprintln(e.stdout, l)
		}
		return err
	})
}
