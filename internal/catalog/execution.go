package catalog

import (
	"context"

	"github.com/qinglong/console/internal/pg"
)

// ReadExecution reads the plan that a Run is pinned to, and refuses one whose content is not what was published
// ([ErrDigest]).
func ReadExecution(ctx context.Context, q pg.Querier, project, task string, revision int64) (_ Execution, err error) {
	defer pg.Wrap(&err, "catalog.ReadExecution(%s, %s, %d)", project, task, revision)
	var content, digest string
	err = q.QueryRow(ctx, `SELECT content, content_digest FROM task_execution_revisions
		WHERE project_id = $1 AND task_id = $2 AND task_revision = $3`, project, task, revision).Scan(&content, &digest)
	if err != nil {
		return Execution{}, err
	}
	if err := Verify(DomainExecution, content, digest); err != nil {
		return Execution{}, err
	}
	return ParseExecution(content)
}
