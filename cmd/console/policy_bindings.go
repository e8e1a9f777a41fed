package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

type bindingsCmd struct {
	Project string `help:"Only of this project." env:"-"`
	userFlags
	History bool `help:"Every version, the newest first, also roles that were lost." env:"-"`
	JSON    bool `name:"json" help:"One JSON document." env:"-"`
}

// Run lists who has which role where.
func (c bindingsCmd) Run(ctx context.Context, e env) error {
	pool, err := openAs(ctx, e, migrations.RoleAdmin)
	if err != nil {
		return err
	}
	defer pool.Close()
	u, err := c.find(ctx, pool)
	if err != nil {
		return err
	}
	list, err := policy.ListBindings(ctx, pool, policy.BindingFilter{Scope: scopeOf(c.Project), User: u.ID, History: c.History})
	if err == nil && len(list) == 0 {
		err = checkProject(ctx, pool, c.Project)
	}
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(e.stdout, map[string]any{"bindings": append([]policy.RoleBinding{}, list...)})
	case len(list) == 0:
		_, err := fmt.Fprintln(e.stdout, "no bindings")
		return err
	}
	return writeTable(e.stdout, bindingRows(list))
}

// scopeOf is one Project, or everything if none is named.
func scopeOf(project string) policy.Scope {
	if project == "" {
		return policy.Scope{Everything: true}
	}
	return policy.Scope{Projects: []string{project}}
}

// checkProject refuses a Project that there is not: a list that is empty for a misspelled one would be taken for an answer.
func checkProject(ctx context.Context, pool *pgxpool.Pool, project string) error {
	if project == "" {
		return nil
	}
	return asUsage(policy.CheckProject(ctx, pool, project))
}

func bindingRows(list []policy.RoleBinding) [][]string {
	rows := [][]string{{"PROJECT", "ROLE", "VERSION", "SINCE", "USER", "NAME", "E-MAIL", "ISSUER", "SUBJECT", "BY", "REASON"}}
	for _, b := range list {
		role := string(b.Role)
		if role == "" {
			role = "(lost)"
		}
		rows = append(rows, []string{b.ProjectID, role, strconv.FormatInt(b.Version, 10), instant(b.CreatedAtMS), b.User.ID.String() + disabledMark(b.User),
			b.User.Name, addressText(b.User), b.User.Issuer, b.User.Subject, b.Actor, b.Reason})
	}
	return rows
}

func disabledMark(u policy.User) string {
	if u.Active {
		return ""
	}
	return " (disabled)"
}

func addressText(u policy.User) string {
	if u.Email == "" || u.EmailVerified {
		return u.Email
	}
	return u.Email + " (unverified)"
}
