package search

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// IDs are what a filter may be about that wants an id whole.
type IDs struct {
	Tasks    []Task
	Triggers []Trigger
}

// List lists the first Tasks and Triggers of projects, most of each at most: Project by Project, as they are given, and in
// each by id.
func List(ctx context.Context, q pg.Querier, projects []string, most int) (ids IDs, err error) {
	defer pg.Wrap(&err, "search.List(%d projects)", len(projects))
	rows, err := q.Query(ctx, idsSQL, projects, most)
	if err != nil {
		return IDs{}, err
	}
	var project, id string
	var name *string // a Trigger has none
	_, err = pgx.ForEachRow(rows, []any{&project, &id, &name}, func() error {
		if name == nil {
			ids.Triggers = append(ids.Triggers, Trigger{project, id})
		} else {
			ids.Tasks = append(ids.Tasks, Task{project, id, *name})
		}
		return nil
	})
	return ids, err
}

// ID is what a filter has to be given to be about one Task or one Trigger.
type ID struct{ ProjectID, ID string }

// NearTasks finds Tasks of projects by their id or name, best first: see [near].
func NearTasks(ctx context.Context, q pg.Querier, projects []string, text string) (ids []ID, err error) {
	defer pg.Wrap(&err, "search.NearTasks(%d projects)", len(projects))
	list, err := near[Task](ctx, q, tasksSQL, projects, text)
	for _, t := range list {
		ids = append(ids, ID{t.ProjectID, t.ID})
	}
	return ids, err
}

// NearTriggers finds Triggers of projects by their id, best first: see [near].
func NearTriggers(ctx context.Context, q pg.Querier, projects []string, text string) (ids []ID, err error) {
	defer pg.Wrap(&err, "search.NearTriggers(%d projects)", len(projects))
	list, err := near[Trigger](ctx, q, triggersSQL, projects, text)
	for _, t := range list {
		ids = append(ids, ID(t))
	}
	return ids, err
}

// near finds what has all of text or, where nothing has, its first half: of a word that is mistyped, most often the end is.
func near[T any](ctx context.Context, q pg.Querier, sql string, projects []string, text string) (list []T, err error) {
	whole := normal(text)
	half := []rune(whole)
	half = half[:(len(half)+1)/2]
	for _, part := range []string{whole, normal(string(half))} {
		if part == "" || len(projects) == 0 {
			return nil, nil
		}
		if list, _, err = find[T](ctx, q, part, sql, projects); err != nil || len(list) > 0 {
			break
		}
	}
	return list, err
}

// idsSQL stops as soon as there are enough, whatever there are of Projects.
const idsSQL = `
(SELECT t.project_id, t.task_id, r.name FROM (
    SELECT t.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT t.project_id, t.task_id, t.current_revision FROM task_definitions t WHERE t.project_id = p.id ORDER BY t.task_id LIMIT $2) t LIMIT $2) t
    JOIN task_definition_revisions r ON r.project_id = t.project_id AND r.task_id = t.task_id AND r.revision = t.current_revision
    ORDER BY 1, 2)
UNION ALL
(SELECT t.project_id, t.trigger_id, NULL FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
    SELECT t.project_id, t.trigger_id FROM triggers t WHERE t.project_id = p.id ORDER BY t.trigger_id LIMIT $2) t LIMIT $2)`
