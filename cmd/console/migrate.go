package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

type migrateCmd struct {
	Bootstrap bootstrapCmd `cmd:"" help:"Once, as superuser: make the roles, the schema and the version table, or print the SQL for it."`
	Up        upCmd        `cmd:"" help:"Apply every migration the database does not have."`
	Down      downCmd      `cmd:"" help:"Undo the newest migration. Data of its tables is lost."`
	Status    statusCmd    `cmd:"" help:"List the migrations and which are applied."`
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
func withMigrations(ctx context.Context, urls databases, fn func(*pg.Migrations) error) error {
	pool, err := urls.open(ctx, migrations.RoleMigration, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	if version, err := pg.SchemaVersion(ctx, pool, migrations.VersionTable); err != nil {
		return err
	} else if version > migrations.Latest() {
		return fmt.Errorf("the schema is at version %d, this console knows %d; run a newer console", version, migrations.Latest())
	}
	m, err := pg.OpenMigrations(pool, migrations.Files(), migrations.VersionTable)
	if err != nil {
		return err
	}
	return errors.Join(fn(m), m.Close())
}

type upCmd struct{}

// Run applies what is missing and names each file.
func (upCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(m *pg.Migrations) error {
		files, err := m.Up(ctx)
		for _, f := range files {
			fmt.Fprintln(e.stdout, "applied", f)
		}
		if err == nil && len(files) == 0 {
			fmt.Fprintln(e.stdout, "nothing to apply")
		}
		return err
	})
}

type downCmd struct{}

// Run undoes one migration.
func (downCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(m *pg.Migrations) error {
		file, err := m.Down(ctx)
		if err != nil {
			return err
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

// Run lists every migration.
func (statusCmd) Run(ctx context.Context, e env) error {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return err
	}
	return withMigrations(ctx, urls, func(m *pg.Migrations) error {
		list, err := m.Status(ctx)
		for _, f := range list {
			state := "pending"
			if f.Applied {
				state = "applied"
			}
			fmt.Fprintf(e.stdout, "%-8s %s\n", state, f.File)
		}
		return err
	})
}
