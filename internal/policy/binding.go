package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg"
)

// ErrMutationConflict reports that the mutation id was already used, for something else. Nothing was done.
var ErrMutationConflict = errors.New("this mutation id was already used for another change")

// GrantRequest asks for one version of a binding. Sent again with the same mutation id, it is answered with what the
// first one did.
type GrantRequest struct {
	Project    string
	User       uuid.UUID
	Role       Role
	MutationID uuid.UUID
	Actor      Actor
	Reason     string // in the actor's words, at most 500 characters
}

// RevokeRequest is a [GrantRequest] that takes the role away.
type RevokeRequest struct {
	Project    string
	User       uuid.UUID
	MutationID uuid.UUID
	Actor      Actor
	Reason     string
}

// Grant gives a User a role in a Project, in place of the one it may have there, as role ql3_admin. An archived Project
// can be granted in, so that somebody new may read it. The error is a [Mistake] for wrong input, or
// [ErrMutationConflict].
func Grant(ctx context.Context, pool *pgxpool.Pool, r GrantRequest) (_ Binding, err error) {
	defer pg.Wrap(&err, "policy.Grant(%s, %s, %s)", r.Project, r.User, r.Role)
	if !slices.Contains(Roles(), r.Role) {
		return Binding{}, Mistake(fmt.Sprintf("%q is no role: write owner, admin, operator or viewer", string(r.Role)))
	}
	return change(ctx, pool, r)
}

// Revoke takes the User's role in the Project away, as role ql3_admin; also a disabled User's, also in an archived
// Project. Its errors are those of [Grant].
func Revoke(ctx context.Context, pool *pgxpool.Pool, r RevokeRequest) (_ Binding, err error) {
	defer pg.Wrap(&err, "policy.Revoke(%s, %s)", r.Project, r.User)
	return change(ctx, pool, GrantRequest{Project: r.Project, User: r.User, MutationID: r.MutationID, Actor: r.Actor, Reason: r.Reason})
}

// change appends the binding that r asks for; no role is a role lost.
func change(ctx context.Context, pool *pgxpool.Pool, r GrantRequest) (b Binding, err error) {
	if err := CheckReason(r.Reason); err != nil {
		return Binding{}, err
	}
	err = settled(ctx, pool, func(tx pgx.Tx) (err error) {
		b, err = changeIn(ctx, tx, r)
		return err
	})
	return b, err
}

// settled runs fn again if nobody knows whether its transaction committed. fn takes the same row locks first, so that
// it waits for that transaction, and then finds what it did.
func settled(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	err := pg.InTx(ctx, pool, fn)
	if errors.Is(err, pg.ErrOutcomeUnknown) {
		return pg.InTx(ctx, pool, fn)
	}
	return err
}

// CheckReason refuses, with a [Mistake], a reason that the audit cannot keep.
func CheckReason(reason string) error {
	if n := utf8.RuneCountInString(reason); n > maxText {
		return Mistake(fmt.Sprintf("the reason has %d characters, want at most %d", n, maxText))
	}
	if reason != bounded(reason) {
		return Mistake("the reason is not text")
	}
	return nil
}

func changeIn(ctx context.Context, tx pgx.Tx, r GrantRequest) (Binding, error) {
	b, err := lockProject(ctx, tx, r.Project)
	if errors.Is(err, pgx.ErrNoRows) {
		return Binding{}, noProject(r.Project)
	}
	if err != nil {
		return Binding{}, err
	}
	first, err := replayed(ctx, tx, r)
	if err != nil || first != 0 {
		b.Role, b.Version = r.Role, first
		return b, err
	}
	was, err := readHolder(ctx, tx, r.Project, r.User)
	if err != nil {
		return Binding{}, err
	}
	if err := r.fits(was); err != nil {
		return Binding{}, err
	}
	b.Role, b.Version = r.Role, was.version+1
	return b, write(ctx, tx, r, b, was)
}

// replayed returns the version that r's mutation id made, if it was for exactly this, and 0 if it is new.
func replayed(ctx context.Context, tx pgx.Tx, r GrantRequest) (version int64, err error) {
	var same bool
	err = tx.QueryRow(ctx, `
		SELECT version, project_id = $2 AND user_id = $3 AND coalesce(role, '') = $4 AND actor = $5 AND coalesce(reason, '') = $6
		FROM project_role_bindings WHERE mutation_id = $1`,
		r.MutationID, r.Project, r.User, r.Role, r.by(), r.Reason).Scan(&version, &same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err == nil && !same:
		return 0, ErrMutationConflict
	}
	return version, err
}

// by is the actor as the binding's row holds it.
func (r GrantRequest) by() string { return bounded(r.Actor.identity()) }

// A holder is a User, with the newest version of its binding in one Project.
type holder struct {
	User
	role    Role  // "" is none, or lost
	version int64 // 0 is none
}

func readHolder(ctx context.Context, tx pgx.Tx, project string, user uuid.UUID) (h holder, err error) {
	h.User, err = FindUser(ctx, tx, user.String())
	if err != nil {
		return holder{}, err
	}
	err = tx.QueryRow(ctx, `
		SELECT coalesce(role, ''), version FROM project_role_bindings
		WHERE project_id = $1 AND user_id = $2 ORDER BY version DESC LIMIT 1`, project, user).Scan(&h.role, &h.version)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, nil
	}
	return h, err
}

// fits reports why r cannot follow on what was.
func (r GrantRequest) fits(was holder) error {
	switch {
	case r.Role == "" && was.role == "":
		return Mistake(fmt.Sprintf("user %s has no role in project %s", r.User, r.Project))
	case r.Role != "" && !was.Active:
		return Mistake(fmt.Sprintf("user %s is disabled: enable it before a role is granted", r.User))
	}
	return nil
}

// write appends b. Every writer has looked for its mutation id first, so that at SERIALIZABLE one that another has used
// meanwhile is a 40001 and no 23505, and the next try sees the row.
func write(ctx context.Context, tx pgx.Tx, r GrantRequest, b Binding, was holder) error {
	if err := raiseGuards(ctx, tx, []string{r.Project}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, reason, created_at_ms)
		VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, NULLIF($7, ''), `+pg.ClockMS+`)`, r.Project, r.User, b.Version, r.Role, r.MutationID, r.by(), r.Reason)
	if err != nil {
		return err
	}
	action := "binding.grant"
	if r.Role == "" {
		action = "binding.revoke"
	}
	return WriteAudit(ctx, tx, AuditEvent{Action: action, Outcome: Allowed, Actor: r.Actor, ProjectID: r.Project, ProjectVersion: b.ProjectVersion,
		TargetUserID: &r.User, MutationID: &r.MutationID, Words: r.Reason,
		Detail: was.detail(map[string]any{"role": string(r.Role), "previous_role": string(was.role), "version": b.Version})})
}

// detail adds who it was done to, by what nobody can choose for himself.
func (u User) detail(d map[string]any) map[string]any {
	d["target_issuer"], d["target_subject"] = u.Issuer, u.Subject
	return d
}
