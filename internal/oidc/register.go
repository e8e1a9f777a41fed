package oidc

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// Register makes the User that i names, if there is none, and returns its id: for console dev, whose accounts have
// their roles before they first sign in. authn is role ql3_authn.
func Register(ctx context.Context, authn *pgxpool.Pool, i Identity) (id uuid.UUID, err error) {
	defer pg.Wrap(&err, "oidc.Register(%s)", i.Issuer)
	err = pg.InTx(ctx, authn, func(tx pgx.Tx) (err error) {
		id, err = upsertUser(ctx, tx, newcomer{Identity: i})
		return err
	})
	return id, err
}
