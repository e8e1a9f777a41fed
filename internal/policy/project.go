package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// Project is a Project as a reader may choose it.
type Project struct {
	ID       string
	Name     string
	Archived bool
}

// Projects returns every Project, and the database clock. Which of them a reader may see is [Access.Visible]'s to say.
func Projects(ctx context.Context, q pg.Querier) (_ []Project, nowMS int64, err error) {
	defer pg.Wrap(&err, "policy.Projects()")
	rows, err := q.Query(ctx, `
		SELECT `+pg.ClockMS+`, coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.status = 'archived', false)
		FROM (SELECT) one LEFT JOIN projects p ON true ORDER BY p.id`)
	if err != nil {
		return nil, 0, err
	}
	var list []Project
	var p Project
	_, err = pgx.ForEachRow(rows, []any{&nowMS, &p.ID, &p.Name, &p.Archived}, func() error {
		if p.ID != "" { // no Project at all is one row
			list = append(list, p)
		}
		return nil
	})
	return slices.Clip(list), nowMS, err
}

// lockProject takes the lock that every writer of a Project's policy takes first. FOR NO KEY UPDATE, because FOR UPDATE
// deadlocks with foreign-key checks.
func lockProject(ctx context.Context, tx pgx.Tx, id string) (Binding, error) {
	rows, err := tx.Query(ctx, `SELECT name, status = 'active', version FROM projects WHERE id = $1 FOR NO KEY UPDATE`, id)
	if err != nil {
		return Binding{}, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Binding, error) {
		b := Binding{ProjectID: id}
		return b, row.Scan(&b.ProjectName, &b.ProjectActive, &b.ProjectVersion)
	})
}

// CheckProject refuses, with a [Mistake], a Project that there is not. It locks nothing: a question can be asked meanwhile.
func CheckProject(ctx context.Context, q pg.Querier, id string) (err error) {
	defer pg.Wrap(&err, "policy.CheckProject(%s)", id)
	var there bool
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projects WHERE id = $1)`, id).Scan(&there); err != nil {
		return err
	}
	if !there {
		return noProject(id)
	}
	return nil
}

func noProject(id string) Mistake {
	return Mistake(fmt.Sprintf("there is no project %q: publish it first (console apply)", id))
}

// raiseGuards makes every serializable transaction that waits for one of the Projects start again.
func raiseGuards(ctx context.Context, tx pgx.Tx, projects []string) error {
	_, err := tx.Exec(ctx, `UPDATE projects SET guard = guard + 1 WHERE id = ANY($1)`, projects)
	return err
}
