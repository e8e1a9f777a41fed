// Package search turns what a person typed into things that have ids: Projects, Tasks, Triggers, Run ids and Users.
//
// It finds only what lies in the Projects that the reader may see, and of Users only those who have retried a Run in
// one of them. What it reads is bounded whatever there is: names are compared among the first 20,000 of a kind, an id
// that is typed whole is always found, and no table of Runs is searched by anything but an index.
package search

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

const (
	// Most is how many of each kind one search finds.
	Most = 50
	// maxExamined is how many names of one kind are compared.
	maxExamined = 20_000
	// maxText is where a text is cut, in bytes: no name and no address is longer.
	maxText = 400
)

// Found is what a text may mean. Every list is best first: equal, then beginning with the text, then containing it.
type Found struct {
	Text     string    `json:"text"` // as it was compared
	Projects []Project `json:"projects"`
	Tasks    []Task    `json:"tasks"`
	Triggers []Trigger `json:"triggers"`
	Users    []User    `json:"users"`
	RunIDs   *RunIDs   `json:"-"`    // if the text is a Run id or begins one
	More     bool      `json:"more"` // there may be more than is listed
	Cut      Cut       `json:"-"`
}

// Cut says of which kinds the text names more than are listed.
type Cut struct{ Projects, Tasks, Triggers, Users bool }

// Project is one that the reader may see.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Task is found by its id or by its name in the current revision.
type Task struct {
	ProjectID string `json:"projectId"`
	ID        string `json:"id"`
	Name      string `json:"name"`
}

// Trigger is found by its id.
type Trigger struct {
	ProjectID string `json:"projectId"`
	ID        string `json:"id"`
}

// User is found by name or e-mail address, if he has retried a Run that the reader may see.
type User struct {
	ID    uuid.UUID `json:"id"`
	Name  string    `json:"name"`
	Email string    `json:"email"`
}

// Find finds what text may mean in projects. A text of blanks means nothing.
func Find(ctx context.Context, q pg.Querier, projects []string, text string) (_ Found, err error) {
	defer pg.Wrap(&err, "search.Find(%d projects)", len(projects))
	f := Found{Text: normal(text)}
	if f.Text == "" || len(projects) == 0 {
		return f, nil
	}
	f.RunIDs = parseRunIDs(f.Text)
	if f.Projects, f.Cut.Projects, err = find[Project](ctx, q, f.Text, projectsSQL, projects); err != nil {
		return Found{}, err
	}
	if f.Tasks, f.Cut.Tasks, err = find[Task](ctx, q, f.Text, tasksSQL, projects); err != nil {
		return Found{}, err
	}
	if f.Triggers, f.Cut.Triggers, err = find[Trigger](ctx, q, f.Text, triggersSQL, projects); err != nil {
		return Found{}, err
	}
	f.Users, f.Cut.Users, err = find[User](ctx, q, f.Text, usersSQL, projects)
	f.More = f.Cut != Cut{}
	return f, err
}

// normal is text as it is compared: in lower case, as ids are, and without blanks around it.
func normal(text string) string {
	text = strings.ToLower(strings.TrimSpace(text)) // which may be longer
	if len(text) > maxText {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:maxText], ""))
	}
	return text
}

// find lists what text names of one kind, at most [Most], and reports whether there is more.
func find[T any](ctx context.Context, q pg.Querier, text, sql string, projects []string) (list []T, cut bool, err error) {
	rows, err := q.Query(ctx, sql, projects, text, maxExamined, Most+1)
	if err != nil {
		return nil, false, err
	}
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if cut = len(list) > Most; cut {
		list = list[:Most]
	}
	return list, cut, err
}

// best orders by how well a column, in lower case, matches $2.
const best = ` ORDER BY h.word = $2 DESC, starts_with(h.word, $2) DESC, `

const projectsSQL = `
SELECT h.id, h.name FROM (
    SELECT p.id, p.name, CASE WHEN strpos(p.id, $2) > 0 THEN p.id ELSE lower(p.name) END AS word
    FROM projects p WHERE p.id = ANY($1) ORDER BY p.id LIMIT $3) h
WHERE strpos(h.word, $2) > 0` + best + `h.id LIMIT $4`

// The one that is named whole is looked up by itself: it may lie beyond those that are looked at.
const tasksSQL = `
SELECT h.project_id, h.task_id, h.name FROM (
    SELECT t.project_id, t.task_id, r.name, CASE WHEN strpos(t.task_id, $2) > 0 THEN t.task_id ELSE lower(r.name) END AS word FROM (
        SELECT t.project_id, t.task_id, t.current_revision FROM unnest($1::text[]) AS p(id) JOIN task_definitions t ON t.project_id = p.id AND t.task_id = $2
        UNION ALL
        SELECT * FROM (SELECT t.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
            SELECT t.project_id, t.task_id, t.current_revision FROM task_definitions t WHERE t.project_id = p.id ORDER BY t.task_id LIMIT $3) t LIMIT $3) t
        WHERE t.task_id <> $2) t
    JOIN task_definition_revisions r ON r.project_id = t.project_id AND r.task_id = t.task_id AND r.revision = t.current_revision) h
WHERE strpos(h.word, $2) > 0` + best + `h.project_id, h.task_id LIMIT $4`

const triggersSQL = `
SELECT h.project_id, h.word FROM (
    SELECT t.project_id, t.trigger_id AS word FROM unnest($1::text[]) AS p(id) JOIN triggers t ON t.project_id = p.id AND t.trigger_id = $2
    UNION ALL
    SELECT * FROM (SELECT t.* FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT t.project_id, t.trigger_id FROM triggers t WHERE t.project_id = p.id ORDER BY t.trigger_id LIMIT $3) t LIMIT $3) t
    WHERE strpos(t.trigger_id, $2) > 0 AND t.trigger_id <> $2) h` + best + `h.project_id LIMIT $4`

// usersSQL looks for the retries of few enough that all their Projects can be asked.
const usersSQL = `
WITH named AS MATERIALIZED (
    SELECT h.* FROM (
        SELECT u.id, coalesce(u.name, '') AS name, coalesce(u.email, '') AS email,
            CASE WHEN strpos(lower(u.email), $2) > 0 THEN lower(u.email) ELSE lower(u.name) END AS word
        FROM users u ORDER BY u.id LIMIT $3) h
    WHERE strpos(h.word, $2) > 0` + best + `h.id LIMIT $4
)
SELECT n.id, n.name, n.email FROM named n WHERE EXISTS (
    SELECT FROM unnest($1::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT FROM runs r WHERE r.project_id = p.id AND r.triggered_by = n.id::text AND r.trigger_type = 'run_manual_retry' LIMIT 1) r)
LIMIT $4`
