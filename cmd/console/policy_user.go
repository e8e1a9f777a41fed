package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/policy"
)

type userCmd struct {
	Disable userDisableCmd `cmd:"" help:"Take everything from a user at once: sessions end, roles rest."`
	Enable  userEnableCmd  `cmd:"" help:"Let a disabled user sign in again, with the roles it had."`
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
