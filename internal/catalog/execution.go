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

// ReadTask reads a Task revision whole, and refuses content that is not what was published ([ErrDigest]).
func ReadTask(ctx context.Context, q pg.Querier, project, task string, revision int64) (_ TaskContent, err error) {
	defer pg.Wrap(&err, "catalog.ReadTask(%s, %s, %d)", project, task, revision)
	var content, digest string
	err = q.QueryRow(ctx, `SELECT content, content_digest FROM task_definition_revisions
		WHERE project_id = $1 AND task_id = $2 AND revision = $3`, project, task, revision).Scan(&content, &digest)
	if err != nil {
		return TaskContent{}, err
	}
	if err := Verify(DomainTask, content, digest); err != nil {
		return TaskContent{}, err
	}
	return ParseTask(content)
}

// Compare lists what differs between two revisions of a Task, ready to be shown; of an environment variable only a
// secret reference is told.
func Compare(from, to TaskContent) ([]Detail, error) {
	stored, err := canonical(from)
	if err != nil {
		return nil, err
	}
	return compareTasks(stored, to), nil
}
