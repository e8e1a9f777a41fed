package policy

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

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
