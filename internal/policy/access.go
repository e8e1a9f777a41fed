package policy

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// Binding is the role a User has in a Project now. The two versions and the role are the policy fence: whoever decides
// by them may later ask whether they still are what they were.
type Binding struct {
	ProjectID      string
	ProjectName    string
	ProjectActive  bool
	ProjectVersion int64
	Role           Role // "" is a role lost
	Version        int64
}

// Access is what one User may do, as of one moment. It is read on every request and never kept past it.
type Access struct {
	UserID   uuid.UUID
	Active   bool               // false also for a User that does not exist
	Bindings map[string]Binding // by Project; a lost role has none
	NowMS    int64              // the database clock of the reading; 0 for a User that does not exist
}

// currentBindings selects the newest version of each binding of the User $1, lost roles included.
const currentBindings = `SELECT DISTINCT ON (project_id) project_id, role, version FROM project_role_bindings
    WHERE user_id = $1 ORDER BY project_id, version DESC`

const accessSQL = `
SELECT ` + pg.ClockMS + `, u.status = 'active', coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.status = 'active', false), coalesce(p.version, 0),
    coalesce(b.role, ''), coalesce(b.version, 0)
FROM users u
LEFT JOIN LATERAL (` + currentBindings + `) b ON b.role IS NOT NULL
LEFT JOIN projects p ON p.id = b.project_id
WHERE u.id = $1`

// ReadAccess reads what user may do, in one query.
func ReadAccess(ctx context.Context, q pg.Querier, user uuid.UUID) (_ Access, err error) {
	defer pg.Wrap(&err, "policy.ReadAccess(%s)", user)
	rows, err := q.Query(ctx, accessSQL, user)
	if err != nil {
		return Access{}, err
	}
	return scanAccess(rows, user)
}

// QueueAccess reads what user may do along with the rest of a batch, into a when that is done.
func QueueAccess(b *pgx.Batch, user uuid.UUID, a *Access) {
	b.Queue(accessSQL, user).Query(func(rows pgx.Rows) (err error) {
		defer pg.Wrap(&err, "policy.QueueAccess(%s)", user)
		*a, err = scanAccess(rows, user)
		return err
	})
}

func scanAccess(rows pgx.Rows, user uuid.UUID) (Access, error) {
	a := Access{UserID: user, Bindings: map[string]Binding{}}
	var b Binding
	_, err := pgx.ForEachRow(rows, []any{&a.NowMS, &a.Active, &b.ProjectID, &b.ProjectName, &b.ProjectActive, &b.ProjectVersion, &b.Role, &b.Version}, func() error {
		if b.ProjectID != "" { // a User without a role is one row
			a.Bindings[b.ProjectID] = b
		}
		return nil
	})
	if err != nil {
		return Access{}, err
	}
	return a, nil
}

// Visible returns the ids of the Projects whose contents the User may read, sorted: what every list is restricted to.
func (a Access) Visible() []string {
	var ids []string
	for _, b := range a.Allowing(Read) {
		ids = append(ids, b.ProjectID)
	}
	return ids
}

// Allowing returns the bindings that let the User do p now, sorted by Project.
func (a Access) Allowing(p Permission) []Binding {
	list := make([]Binding, 0, len(a.Bindings))
	for _, project := range slices.Sorted(maps.Keys(a.Bindings)) {
		if d := a.Decide(project, p); d.Allowed {
			list = append(list, d.Binding)
		}
	}
	return list
}

// Somewhere reports whether the User may do p in any Project at all.
func (a Access) Somewhere(p Permission) bool {
	for project := range a.Bindings {
		if a.Decide(project, p).Allowed {
			return true
		}
	}
	return false
}

// Reason is why something is refused: a stable word, also the audit's.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	UserDisabled    Reason = "user_disabled"
	NotVisible      Reason = "not_visible"      // for the User the Project does not exist: answer 404
	ProjectArchived Reason = "project_archived" // no role would help
	RoleMissing     Reason = "role_missing"
)

// Decision is whether something may be done, and by which fence.
type Decision struct {
	Allowed bool
	Reason  Reason  // "" when allowed
	Need    []Role  // with RoleMissing: the roles that may, the mightiest first
	Binding Binding // what was decided by; the zero value for UserDisabled and NotVisible, which tell nothing
}

// Decide decides whether the User may do p in project. Whatever is not granted is denied.
func (a Access) Decide(project string, p Permission) Decision {
	b, bound := a.Bindings[project]
	rule := p.rule()
	switch {
	case !a.Active:
		return Decision{Reason: UserDisabled}
	case !bound || !b.Role.May(Read):
		return Decision{Reason: NotVisible}
	case rule.Changes && !b.ProjectActive:
		return Decision{Reason: ProjectArchived, Binding: b}
	case !b.Role.May(p):
		return Decision{Reason: RoleMissing, Need: slices.Clone(rule.Roles), Binding: b}
	}
	return Decision{Allowed: true, Binding: b}
}
