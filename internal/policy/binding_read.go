package policy

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// RoleBinding is one version of a binding, a fact.
type RoleBinding struct {
	ProjectID   string    `json:"projectId"`
	Version     int64     `json:"version"`
	Role        Role      `json:"role"` // "" is a role lost
	MutationID  uuid.UUID `json:"mutationId"`
	Actor       string    `json:"actor"`
	Reason      string    `json:"reason,omitempty"`
	CreatedAtMS int64     `json:"createdAtMs"` // UTC milliseconds
	User        User      `json:"user"`
}

// BindingFilter says which bindings a list is of. An empty field does not restrict, except the scope.
type BindingFilter struct {
	Scope
	User    uuid.UUID
	History bool // every version, the newest first, and not only the roles held now
}

// ListBindings returns the bindings that match f by Project, by role, the mightiest first, and by User.
func ListBindings(ctx context.Context, q pg.Querier, f BindingFilter) (_ []RoleBinding, err error) {
	defer pg.Wrap(&err, "policy.ListBindings(%d projects)", len(f.Projects))
	rows, err := q.Query(ctx, `
		SELECT b.project_id, b.version, coalesce(b.role, ''), b.mutation_id, b.actor, coalesce(b.reason, ''), b.created_at_ms, `+userColumns+`
		FROM project_role_bindings b JOIN users u ON u.id = b.user_id
		WHERE (b.project_id = ANY($1) OR $2) AND (b.user_id = $3 OR $3 IS NULL)
		AND ($4 OR b.role IS NOT NULL AND NOT EXISTS (
			SELECT FROM project_role_bindings newer
			WHERE newer.project_id = b.project_id AND newer.user_id = b.user_id AND newer.version > b.version))
		ORDER BY b.project_id, CASE WHEN $4 THEN 0 ELSE array_position($5::text[], b.role) END, u.issuer, u.subject, b.version DESC`,
		f.Projects, f.Everything, orNull(f.User), f.History, Roles())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b RoleBinding, err error) {
		u := &b.User
		return b, row.Scan(&b.ProjectID, &b.Version, &b.Role, &b.MutationID, &b.Actor, &b.Reason, &b.CreatedAtMS,
			&u.ID, &u.Issuer, &u.Subject, &u.Name, &u.Email, &u.EmailVerified, &u.Active, &u.CreatedAtMS, &u.SignedInAtMS)
	})
}

func orNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
