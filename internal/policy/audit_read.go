package policy

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// MaxAuditPage is the largest number of events that one [ListAudit] returns.
const MaxAuditPage = 500

// Scope says of which Projects a list is. The zero value is of none: nobody is shown what nobody decided he may see.
type Scope struct {
	Projects   []string
	Everything bool // every Project, and what belongs to none: for a command, which holds a database role's password
}

// AuditFilter says which events a list is of. An empty field does not restrict, except the scope.
type AuditFilter struct {
	Scope
	User    uuid.UUID // who did it, or to whom it was done
	Run     uuid.UUID
	Action  string // whole
	Outcome Outcome
	SinceMS int64 // at or after
	UntilMS int64 // before
}

// AuditRecord is an event as it was written.
type AuditRecord struct {
	CreatedAtMS int64 `json:"createdAtMs"`
	AuditEvent
	Target string `json:"target,omitempty"` // what the User to whom it was done is called now
}

// AuditPage is a part of the audit. Next is where the following part begins, or nil at the end.
type AuditPage struct {
	Events []AuditRecord
	Next   *pg.Cursor
}

// ListAudit returns at most n events (1 to [MaxAuditPage]) that match f, newest first, from after on; a nil after is the
// newest. It needs role ql3_console.
func ListAudit(ctx context.Context, q pg.Querier, f AuditFilter, after *pg.Cursor, n int) (_ AuditPage, err error) {
	defer pg.Wrap(&err, "policy.ListAudit(%d projects)", len(f.Projects))
	n = min(max(n, 1), MaxAuditPage)
	sql, args := f.query(after, n+1)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return AuditPage{}, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r AuditRecord, err error) {
		return r, row.Scan(append([]any{&r.ID, &r.CreatedAtMS, &r.Target}, r.fields()...)...)
	})
	if err != nil {
		return AuditPage{}, err
	}
	var page AuditPage
	page.Events, page.Next = pg.FirstPage(list, n, func(r AuditRecord) pg.Cursor { return pg.Cursor{CreatedAtMS: r.CreatedAtMS, ID: r.ID} })
	return page, nil
}

// selectAudit selects what [AuditRecord] holds from e.
var selectAudit = func() string {
	columns := "SELECT e.id, e.created_at_ms, coalesce((SELECT coalesce(u.name, u.email, u.subject) FROM users u WHERE u.id = e.target_user_id), '')"
	for _, c := range auditColumns {
		column := "e." + c.name
		if c.zero != "" {
			column = "coalesce(" + column + ", " + c.zero + ")"
		}
		columns += ", " + column
	}
	return columns
}()

const newestFirst = ` ORDER BY e.created_at_ms DESC, e.id DESC LIMIT $1`

// query spells only the conditions that restrict, so that the planner sees which index serves them. Each Project is
// walked by its own index: with = ANY the planner reads all of their events to sort them.
func (f AuditFilter) query(after *pg.Cursor, limit int) (string, []any) {
	args := []any{limit}
	arg := func(v any) string { args = append(args, v); return "$" + strconv.Itoa(len(args)) }
	where := f.conditions(after, arg)
	if f.Everything {
		return selectAudit + ` FROM security_audit_events e WHERE ` + where + newestFirst, args
	}
	return selectAudit + ` FROM unnest(` + arg(f.Projects) + `::text[]) AS p(id) CROSS JOIN LATERAL (
    SELECT * FROM security_audit_events e WHERE e.project_id = p.id AND ` + where + newestFirst + `) e` + newestFirst, args
}

func (f AuditFilter) conditions(after *pg.Cursor, arg func(any) string) string {
	where := "true"
	add := func(restricts bool, condition string, value any) {
		if restricts {
			where += " AND " + strings.ReplaceAll(condition, "?", arg(value))
		}
	}
	add(f.User != uuid.Nil, "(e.user_id = ? OR e.target_user_id = ?)", f.User)
	add(f.Run != uuid.Nil, "e.run_id = ?", f.Run)
	add(f.Action != "", "e.action = ?", f.Action)
	add(f.Outcome != "", "e.outcome = ?", f.Outcome)
	add(f.SinceMS > 0, "e.created_at_ms >= ?", f.SinceMS)
	add(f.UntilMS > 0, "e.created_at_ms < ?", f.UntilMS)
	if after != nil {
		where += " AND (e.created_at_ms, e.id) < (" + arg(after.CreatedAtMS) + ", " + arg(after.ID) + ")"
	}
	return where
}
