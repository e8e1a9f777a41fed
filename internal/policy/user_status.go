package policy

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// DisableUser takes everything from a User at once, as role ql3_admin: in one transaction it revokes all its sessions,
// which revokes their proofs, and raises the guard of every Project in which it has a role. Roles stay, for [EnableUser].
// A User already disabled stays so. The error is a [Mistake] for wrong input.
func DisableUser(ctx context.Context, pool *pgxpool.Pool, user uuid.UUID, actor Actor, reason string) (err error) {
	defer pg.Wrap(&err, "policy.DisableUser(%s)", user)
	return setStatus(ctx, pool, statusChange{user: user, status: "disabled", action: "user.disable", actor: actor, reason: reason})
}

// EnableUser lets a disabled User sign in again, with the roles it has. No session comes back.
func EnableUser(ctx context.Context, pool *pgxpool.Pool, user uuid.UUID, actor Actor, reason string) (err error) {
	defer pg.Wrap(&err, "policy.EnableUser(%s)", user)
	return setStatus(ctx, pool, statusChange{user: user, status: "active", action: "user.enable", actor: actor, reason: reason})
}

// EndEverySession revokes every session there is, as role ql3_admin, which revokes each proof that was not consumed. It
// returns how many ended. It is for a database that has come back from a backup: who is signed in there, and what was
// proved and not yet used, is of another time. The audit has one row of it also if there was none: after a restore somebody
// asks whether it was done.
func EndEverySession(ctx context.Context, pool *pgxpool.Pool, actor Actor, reason string) (ended int64, err error) {
	defer pg.Wrap(&err, "policy.EndEverySession()")
	if err := CheckReason(reason); err != nil {
		return 0, err
	}
	event := AuditEvent{ID: uuid.Must(uuid.NewV7()), Action: "session.end_every", Outcome: Allowed, Actor: actor, Words: reason}
	err = settled(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE console_sessions SET revoked_at_ms = `+pg.ClockMS+`, revoke_reason = 'signed_out_everywhere' WHERE revoked_at_ms IS NULL`)
		if err != nil {
			return err
		}
		event.Detail = map[string]any{"sessions_ended": tag.RowsAffected()}
		if err := WriteAudit(ctx, tx, event); err != nil {
			return err
		}
		ended = tag.RowsAffected()
		return nil
	})
	if pg.Constraint(err) == "security_audit_events_pkey" { // the row is there: it was done, and only the answer lost
		err = nil
	}
	return ended, err
}

type statusChange struct {
	user           uuid.UUID
	status, action string
	actor          Actor
	reason         string
}

func setStatus(ctx context.Context, pool *pgxpool.Pool, c statusChange) error {
	if err := CheckReason(c.reason); err != nil {
		return err
	}
	return settled(ctx, pool, func(tx pgx.Tx) error { return c.in(ctx, tx) })
}

// in writes nothing if nothing changes. It locks as [Grant] does, the Projects before the User.
func (c statusChange) in(ctx context.Context, tx pgx.Tx) error {
	projects, err := lockProjectsOf(ctx, tx, c.user)
	if err != nil {
		return err
	}
	user, err := FindUser(ctx, tx, c.user.String())
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE users SET status = $2, version = version + 1, updated_at_ms = greatest(updated_at_ms, `+pg.ClockMS+`)
		WHERE id = $1 AND status <> $2`, c.user, c.status)
	if err != nil {
		return err
	}
	ended, err := c.endSessions(ctx, tx)
	if err != nil || tag.RowsAffected() == 0 && ended == 0 {
		return err
	}
	if err := raiseGuards(ctx, tx, projects); err != nil {
		return err
	}
	return WriteAudit(ctx, tx, AuditEvent{Action: c.action, Outcome: Allowed, Actor: c.actor, TargetUserID: &c.user, Words: c.reason,
		Detail: user.detail(map[string]any{"sessions_ended": ended})})
}

// lockProjectsOf locks, in one order, the Projects in which user has a role.
func lockProjectsOf(ctx context.Context, tx pgx.Tx, user uuid.UUID) ([]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT id FROM projects WHERE id IN (SELECT project_id FROM (`+currentBindings+`) b WHERE role IS NOT NULL)
		ORDER BY id FOR NO KEY UPDATE`, user)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// endSessions revokes every session of a User that is disabled, expired ones too: no clock may bring one back.
func (c statusChange) endSessions(ctx context.Context, tx pgx.Tx) (int64, error) {
	if c.status == "active" {
		return 0, nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE console_sessions SET revoked_at_ms = `+pg.ClockMS+`, revoke_reason = 'user_disabled'
		WHERE user_id = $1 AND revoked_at_ms IS NULL`, c.user)
	return tag.RowsAffected(), err
}
