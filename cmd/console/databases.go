package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// roleVariables name each role's connection, in the order of the documentation. A role without one switches its part off.
var roleVariables = []struct {
	role string
	secretVariable
}{
	{migrations.RoleRuntime, secretVariable{"CONSOLE_RUNTIME_DATABASE_URL", "Connection of ql3_runtime: the scheduler. Without it serve refuses to start."}},
	{migrations.RoleRunManager, secretVariable{"CONSOLE_RUN_MANAGER_DATABASE_URL", "Connection of ql3_run_manager: retry and stop. Without it the console is read-only."}},
	{migrations.RoleAuthn, secretVariable{"CONSOLE_AUTHN_DATABASE_URL", "Connection of ql3_authn: sign-in and step-up. Needed for pages."}},
	{migrations.RoleConsole, secretVariable{"CONSOLE_WEB_DATABASE_URL", "Connection of ql3_console: what pages and console audit read. Needed for pages."}},
	{migrations.RoleAdmin, secretVariable{"CONSOLE_ADMIN_DATABASE_URL", "Connection of ql3_admin: apply, grant, revoke, bindings and user. serve never uses it."}},
	{migrations.RoleMigration, secretVariable{"CONSOLE_MIGRATION_DATABASE_URL", "Connection of ql3_migration: migrate up, down and status. serve never uses it."}},
}

// superuserVariable is only for migrate bootstrap.
var superuserVariable = secretVariable{"CONSOLE_BOOTSTRAP_DATABASE_URL",
	"Connection of a superuser to the console's database, only for migrate bootstrap; not needed with --print."}

// databases are the connection URLs by role; a role that was not given has none.
type databases map[string]secret

// readDatabases reads every role's URL and reports every mistake: an unreadable file, no URL, another role's user.
func readDatabases(getenv func(string) string) (databases, error) {
	d := databases{}
	var errs []error
	for _, v := range roleVariables {
		url, err := v.read(getenv)
		if err == nil && url != "" {
			err = ofRole(v.name, url, v.role)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if url != "" {
			d[v.role] = url
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{err}
	}
	return d, nil
}

func ofRole(name string, url secret, role string) error {
	user, _, err := pg.User(url.reveal())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if user != role {
		return fmt.Errorf("%s connects as %q, want %s: each part of the console has its own role", name, user, role)
	}
	return nil
}

// require returns the URL of role, or an error that names the variable to set.
func (d databases) require(role string) (string, error) {
	if url, ok := d[role]; ok {
		return url.reveal(), nil
	}
	for _, v := range roleVariables {
		if v.role == role {
			return "", usage("%s is not set. %s", v.name, v.help)
		}
	}
	return "", fmt.Errorf("no variable names the connection of %s", role)
}

// poolSizes are small on purpose: any number of replicas share one server.
var poolSizes = map[string]int32{
	migrations.RoleRuntime: 4, migrations.RoleRunManager: 4, migrations.RoleAuthn: 2, migrations.RoleConsole: 6,
	migrations.RoleAdmin: 2, migrations.RoleMigration: 2,
}

const (
	statementTimeout = 5 * time.Second
	migrationTimeout = 0 // a migration may build an index for as long as it takes
	// lockTimeout bounds how long a migration waits for a lock: what replicas ask for meanwhile queues up behind it.
	lockTimeout = 4 * time.Second
)

// open makes the pool of role. lost, which may be nil, is told when an idle connection turns out to be dead.
func (d databases) open(ctx context.Context, role string, lost func(error)) (*pgxpool.Pool, error) {
	url, err := d.require(role)
	if err != nil {
		return nil, err
	}
	c := pg.PoolConfig{URL: url, App: "console " + version, Schema: migrations.Schema, MaxConns: poolSizes[role],
		StatementTimeout: statementTimeout, Serializable: serializable(role), Lost: lost}
	if role == migrations.RoleMigration {
		c.StatementTimeout, c.LockTimeout = migrationTimeout, lockTimeout
	}
	return pg.Open(ctx, c)
}

// serializable tells the roles that write what other serializable transactions read.
func serializable(role string) bool {
	return role == migrations.RoleRuntime || role == migrations.RoleRunManager || role == migrations.RoleAdmin || role == migrations.RoleAuthn
}
