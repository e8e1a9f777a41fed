package oidc

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// store is the cookie store's table. It is scs's pgxstore but for one thing: a request's deadline reaches the database.
type store struct{ console *pgxpool.Pool }

const findSQL = `SELECT data FROM sessions WHERE token = $1 AND current_timestamp < expiry`

// FindCtx returns what is stored under token, if that has not expired.
func (s store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	l, _ := ctx.Value(lookedKey{}).(*looked)
	if data, found, ok := l.take(token); ok {
		return data, found, nil
	}
	data, found, err = scanFound(s.console.QueryRow(ctx, findSQL, token))
	if l != nil {
		l.key, l.data, l.found = token, data, found
	}
	return data, found, err
}

func scanFound(row pgx.Row) (data []byte, found bool, err error) {
	if err = row.Scan(&data); errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// CommitCtx stores data under token. The last writer wins.
func (s store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	_, err := s.console.Exec(ctx, `INSERT INTO sessions (token, data, expiry) VALUES ($1, $2, $3)
		ON CONFLICT (token) DO UPDATE SET data = EXCLUDED.data, expiry = EXCLUDED.expiry`, token, data, expiry)
	return err
}

// DeleteCtx forgets token.
func (s store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.console.Exec(ctx, `DELETE FROM sessions WHERE token = $1`, token)
	return err
}

// errNoContext is what the methods without a context answer, which scs never calls on a store that has the others.
var errNoContext = errors.New("the cookie store is called without a context")

// Find is there for scs's older interface alone.
func (store) Find(string) ([]byte, bool, error) { return nil, false, errNoContext }

// Commit is there for scs's older interface alone.
func (store) Commit(string, []byte, time.Time) error { return errNoContext }

// Delete is there for scs's older interface alone.
func (store) Delete(string) error { return errNoContext }
