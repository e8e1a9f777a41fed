package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

type userCmd struct {
	Disable userDisableCmd `cmd:"" help:"Take everything from a user at once: sessions end, roles rest."`
	Enable  userEnableCmd  `cmd:"" help:"Let a disabled user sign in again, with the roles it had."`
	SignOut userSignOutCmd `cmd:"" help:"End every session of everybody, and with them each verification that was not used, as after a restore."`
}

type userSignOutCmd struct {
	Everybody bool   `required:"" help:"That everybody is meant." env:"-"`
	Reason    string `required:"" help:"Why, for the audit; at most 500 characters." env:"-"`
	yesFlag
}

// Run asks, and ends every session.
func (c userSignOutCmd) Run(ctx context.Context, e env) error {
	if strings.TrimSpace(c.Reason) == "" {
		return usage("--reason is empty: say why everybody is signed out")
	}
	if err := policy.CheckReason(c.Reason); err != nil {
		return asUsage(err)
	}
	pool, err := openAs(ctx, e, migrations.RoleAdmin)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := c.confirm(ctx, e, planned{verb: "end", words: "every session of everybody"}); err != nil {
		return err
	}
	ended, err := policy.EndEverySession(ctx, pool, commandActor(e), c.Reason)
	if err != nil {
		return asUsage(err)
	}
	_, err = fmt.Fprintf(e.stdout, "ended every session: %d\n", ended)
	return err
}

type userDisableCmd struct{ changeFlags }

// Run disables the User.
func (c userDisableCmd) Run(ctx context.Context, e env) error {
	return c.change(ctx, e, "", func(pool *pgxpool.Pool, u policy.User, _ policy.Role) (planned, error) {
		return planned{words: describeUser(u) + ", ending every session", verb: "disable", done: "disabled", do: func() error {
			return policy.DisableUser(ctx, pool, u.ID, commandActor(e), c.Reason)
		}}, nil
	})
}

type userEnableCmd struct{ changeFlags }

// Run enables the User.
func (c userEnableCmd) Run(ctx context.Context, e env) error {
	return c.change(ctx, e, "", func(pool *pgxpool.Pool, u policy.User, _ policy.Role) (planned, error) {
		if u.Active {
			return planned{}, sayUnchanged(e, "%s is not disabled", describeUser(u))
		}
		return planned{words: describeUser(u), verb: "enable", done: "enabled", do: func() error {
			return policy.EnableUser(ctx, pool, u.ID, commandActor(e), c.Reason)
		}}, nil
	})
}
