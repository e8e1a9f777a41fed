package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

const gateTimeout = 5 * time.Second

// gate is one condition of readiness. What its check returns says what is wrong and what to do.
type gate struct {
	kind  gateKind
	role  string
	name  string
	check func(context.Context) error
}

// pass checks the gate within its time.
func (g gate) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	return explainConnect(g.check(ctx))
}

// gates are the conditions on the pools, in the order in which they are to be passed.
func gates(pools map[string]*pgxpool.Pool) []gate {
	var list []gate
	for _, role := range migrations.Roles() {
		if pool := pools[role]; pool != nil {
			list = append(list, gatesOf(role, pool)...)
		}
	}
	slices.SortStableFunc(list, func(a, b gate) int { return int(a.kind - b.kind) })
	return list
}

// gateKind orders the gates: the server before the schema and the schema before the privileges, whatever the role. Of
// several that fail, the first is the cause.
type gateKind int

const (
	gateServer gateKind = iota
	gateSchema
	gatePrivileges
)

func gatesOf(role string, pool *pgxpool.Pool) []gate {
	return []gate{
		{gateServer, role, "writable primary for " + role, func(ctx context.Context) error { return pg.CheckServer(ctx, pool) }},
		{gateSchema, role, "schema version for " + role, func(ctx context.Context) error { return builtFor().Check(ctx, pool) }},
		{gatePrivileges, role, "privileges of " + role, func(ctx context.Context) error { return checkPrivileges(ctx, role, pool) }},
	}
}

// builtFor is the schema that this build knows.
func builtFor() pg.Schema {
	return pg.Schema{Name: migrations.Schema, Version: migrations.Latest(), VersionTable: migrations.VersionTable,
		FloorTable: migrations.FloorTable, Objects: migrations.Objects()}
}

// checkPrivileges compares the whole matrix, except the owner's: it may do everything.
func checkPrivileges(ctx context.Context, role string, pool *pgxpool.Pool) error {
	if role == migrations.RoleMigration {
		return nil
	}
	return builtFor().CheckPrivileges(ctx, pool, role, migrations.Privileges(role))
}

type checkCmd struct {
	StepUp        bool `help:"Print where to try what the identity provider really sends." env:"-"`
	identityFlags `embed:""`
}

// Run checks the configuration, and passes every gate of every role that has a connection, one line each. It fails if
// one fails.
func (c checkCmd) Run(ctx context.Context, e env) error {
	who, whoErr := c.identityFlags.check(e.getenv, false)
	urls, urlsErr := readDatabases(e.getenv)
	err := errors.Join(whoErr, urlsErr)
	if err != nil {
		return usageError{err}
	}
	if err := c.printIdentity(e.stdout, who); err != nil {
		return err
	}
	pools := map[string]*pgxpool.Pool{}
	for _, v := range roleVariables {
		if _, ok := urls[v.role]; !ok {
			fmt.Fprintf(e.stdout, "off   %s: %s is not set. %s\n", v.role, v.name, v.help)
			continue
		}
		pool, err := urls.open(ctx, v.role, nil)
		if err != nil {
			return err
		}
		defer pool.Close()
		pools[v.role] = pool
	}
	err = passAll(ctx, e, gates(pools))
	for _, role := range []string{migrations.RoleConsole, migrations.RoleRuntime, migrations.RoleMigration} { // who may read it
		if pool := pools[role]; pool != nil && err == nil {
			return noteSchema(ctx, e.stdout, pool)
		}
	}
	return err
}

// noteSchema says for whom the schema is, and who works on it.
func noteSchema(ctx context.Context, w io.Writer, pool *pgxpool.Pool) error {
	lines, err := describeSchema(ctx, pool)
	for _, l := range lines {
		fmt.Fprintf(w, "note  %s\n", l)
	}
	return err
}

// printIdentity says what of the console is on, and what to know about it.
func (c checkCmd) printIdentity(w io.Writer, who *identity) error {
	if who == nil {
		if c.StepUp {
			return usage("CONSOLE_PUBLIC_URL is not set, so there is no page to try a step-up on")
		}
		fmt.Fprintln(w, "off   pages: CONSOLE_PUBLIC_URL is not set")
		return nil
	}
	fmt.Fprintf(w, "ok    pages at %s\n", who.public)
	if strings.Trim(who.public.Path, "/") != "" {
		fmt.Fprintf(w, "note  a path is no boundary: any application at %s://%s can act as the console's users\n", who.public.Scheme, who.public.Host)
	}
	if len(who.stepUps) == 0 {
		fmt.Fprintln(w, "off   retry and stop: CONSOLE_STEP_UP_FILE is not set")
	}
	if c.StepUp {
		fmt.Fprintf(w, "try   %s, as owner or admin of a Project: it shows, rule by rule, what the provider sends\n", who.public.JoinPath("/account/step-up-test"))
	}
	return nil
}

// passAll says of each gate whether it is passed; of a role whose database does not answer once, naming all its gates.
func passAll(ctx context.Context, e env, list []gate) error {
	failed := 0
	named := map[string]bool{}
	for _, g := range list {
		if named[g.role] {
			failed++
			continue
		}
		err := g.pass(ctx)
		if err == nil {
			fmt.Fprintf(e.stdout, "ok    %s\n", g.name)
			continue
		}
		failed++
		if errors.Is(err, pg.ErrNoAnswer) {
			named[g.role], g.name = true, namesOf(list, g.role)
		}
		fmt.Fprintf(e.stdout, "FAIL  %s: %v\n", g.name, err)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d gates failed", failed, len(list))
	}
	if len(list) == 0 {
		return usage("no connection is configured; set the CONSOLE_*_DATABASE_URL variables")
	}
	return nil
}

func namesOf(list []gate, role string) string {
	var names []string
	for _, g := range list {
		if g.role == role {
			names = append(names, g.name)
		}
	}
	return strings.Join(names, ", ")
}
