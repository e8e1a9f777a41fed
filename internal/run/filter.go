package run

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/search"
)

// Origin is how a Run came to be.
type Origin string

// The origins of a Run.
const (
	Scheduled Origin = "scheduled" // admitted for an Occurrence
	Retried   Origin = "retry"     // a retry of another Run
)

// Origins lists every Origin.
func Origins() []Origin { return []Origin{Scheduled, Retried} }

// Filter says which Runs a list is of. An empty field does not restrict, except Projects: nobody sees a Run outside
// the Projects that are named.
type Filter struct {
	Projects  []string
	Statuses  []Status
	Origin    Origin
	TaskID    string
	TriggerID string
	SinceMS   int64 // created at or after
	UntilMS   int64 // created before
	// Unanswered are those that no newer Run of their retry family stands for.
	Unanswered bool

	// Text is what somebody typed: the Runs of the Tasks and Triggers it names, those whose id begins with it, and the
	// retries of the users it names.
	Text string
}

// lookedAt bounds the Runs that a page or a count looks at when no index has all that the filter asks for.
const lookedAt = 5000

// part is one restriction of a [Filter].
type part string

const (
	byStatus  part = "status"
	byOrigin  part = "origin"
	byTask    part = "task"
	byTrigger part = "trigger"
	byAnswer  part = "answer" // no index has it
)

// A walk is one way through an index of runs (r), newest first: a lane (l) for each row of over, which is a Project as a
// rule. With [byStatus] among what it serves there is a lane for each status, too.
type walk struct {
	over   string // relations that are joined
	rows   int    // how many rows they have at most
	keys   string // what the index restricts to
	serves []part // the parts of the filter that keys express
}

// statement builds one statement about the Runs of a filter. It spells only the conditions that restrict, so that the
// planner sees which index serves them. Every Project, and every status, is walked by itself: with = ANY the planner
// reads millions of rows to sort them.
type statement struct {
	Filter
	found search.Found
	args  []any
}

func newStatement(ctx context.Context, q pg.Querier, f Filter) (*statement, error) {
	s := &statement{Filter: f}
	s.Projects = distinct(f.Projects)
	s.Statuses = distinct(f.Statuses)
	if s.Text = strings.TrimSpace(f.Text); s.Text == "" {
		return s, nil
	}
	var err error
	s.found, err = search.Find(ctx, q, s.Projects, s.Text)
	return s, err
}

// partial reports whether the text names more than is walked.
func (s *statement) partial() bool {
	return s.found.Cut.Tasks || s.found.Cut.Triggers || s.found.Cut.Users
}

func distinct[T ~string](list []T) []T {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// walks lists the walks that together meet every Run of the filter; none if there can be no such Run. statuses tells
// that the Runs of every status are wanted apart.
func (s *statement) walks(statuses bool) []walk {
	if len(s.Projects) == 0 || s.TriggerID != "" && s.Origin == Retried {
		return nil
	}
	if s.Text != "" {
		return s.textWalks()
	}
	all := walk{over: s.projects(), rows: len(s.Projects), keys: "r.project_id = l.project"}
	switch {
	case s.TriggerID != "":
		return []walk{s.among(all, "trigger", "triggers", s.TriggerID, byTrigger, byStatus, byOrigin)}
	case s.Origin == Retried:
		all.keys, all.serves = all.keys+" AND "+isRetry, []part{byOrigin, byStatus}
	case s.TaskID != "":
		return []walk{s.among(all, "task", "task_definitions", s.TaskID, byTask, byStatus)}
	case statuses || len(s.Statuses) > 0:
		all.serves = []part{byStatus}
	}
	return []walk{all}
}

func (s *statement) projects() string { return column(s, "project", s.Projects) }

// among narrows all to what has that id, in the Projects of which one has: table tells.
func (s *statement) among(all walk, what, table, id string, serves ...part) walk {
	arg := s.arg(id)
	all.keys, all.serves = all.keys+" AND r."+what+"_id = "+arg, serves
	if all.rows > 1 {
		all.over = fmt.Sprintf("(SELECT t.project_id AS project FROM %s JOIN %s t ON t.project_id = project AND t.%s_id = %s) p", all.over, table, what, arg)
	}
	return all
}

// column is a relation of one column. A list of one is spelled as that one: the planner sees that a single lane is in
// order already, whatever it is a lane of.
func column[T ~string](s *statement, name string, list []T) string {
	if len(list) == 1 {
		return "(SELECT " + s.arg(list[0]) + "::text AS " + name + ") AS " + name
	}
	return "unnest(" + s.arg(list) + "::text[]) AS " + name + "(" + name + ")"
}

// pairs is a relation of Projects and what is named in them.
func (s *statement) pairs(name string, projects, ids []string) string {
	if len(ids) == 1 {
		return "(SELECT " + s.arg(projects[0]) + "::text AS project, " + s.arg(ids[0]) + "::text AS " + name + ") AS p"
	}
	return "unnest(" + s.arg(projects) + "::text[], " + s.arg(ids) + "::text[]) AS p(project, " + name + ")"
}

// isRetry is the condition of the partial indexes of retries.
const isRetry = "r.trigger_type = 'run_manual_retry'"

func (s *statement) textWalks() (list []walk) {
	if t := s.found.Tasks; len(t) > 0 {
		projects, ids := split(t, func(t search.Task) (string, string) { return t.ProjectID, t.ID })
		list = append(list, walk{over: s.pairs("task", projects, ids), rows: len(t),
			keys: "r.project_id = l.project AND r.task_id = l.task", serves: []part{byStatus}})
	}
	if t := s.found.Triggers; len(t) > 0 && s.Origin != Retried { // a Trigger makes no retries
		projects, ids := split(t, func(t search.Trigger) (string, string) { return t.ProjectID, t.ID })
		list = append(list, walk{over: s.pairs("trigger", projects, ids), rows: len(t),
			keys: "r.project_id = l.project AND r.trigger_id = l.trigger", serves: []part{byStatus, byOrigin}})
	}
	return append(list, s.namedWalks()...)
}

// namedWalks meet the Runs whose id the text begins, and the retries of the users it names. They go Project by Project
// like every other: the place where a walk is cut must not be a Run that the reader may not see.
func (s *statement) namedWalks() (list []walk) {
	if n := len(s.found.Users); n > 0 {
		var ids []string
		for _, u := range s.found.Users {
			ids = append(ids, u.ID.String())
		}
		list = append(list, walk{over: s.projects() + " CROSS JOIN " + column(s, "usr", ids), rows: len(s.Projects) * n,
			keys: "r.project_id = l.project AND r.triggered_by = l.usr AND " + isRetry})
	}
	if ids := s.found.RunIDs; ids != nil {
		list = append(list, walk{over: s.projects(), rows: len(s.Projects), keys: "r.project_id = l.project AND r.created_at_ms BETWEEN " + s.arg(createdMS(ids.First)) +
			" AND " + s.arg(createdMS(ids.Last)) + " AND r.id BETWEEN " + s.arg(ids.First) + " AND " + s.arg(ids.Last)})
	}
	return list
}

// createdMS is the time with which a version 7 UUID begins (RFC 9562, section 5.7), as the Run of that id was created.
func createdMS(id uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

func split[T any](list []T, of func(T) (string, string)) (projects, ids []string) {
	for _, t := range list {
		project, id := of(t)
		projects, ids = append(projects, project), append(ids, id)
	}
	return projects, ids
}

// unserved are the parts of the filter that w's index does not restrict to.
func (s *statement) unserved(w walk) (list []part) {
	asked := map[part]bool{byStatus: len(s.Statuses) > 0, byOrigin: s.Origin != "", byTask: s.TaskID != "", byTrigger: s.TriggerID != "", byAnswer: s.Unanswered}
	for _, p := range []part{byStatus, byOrigin, byTask, byTrigger, byAnswer} {
		if asked[p] && !slices.Contains(w.serves, p) {
			list = append(list, p)
		}
	}
	return list
}

// rest is what the filter asks for beyond what w's index restricts to, or "".
func (s *statement) rest(w walk) string {
	var list []string
	for _, p := range s.unserved(w) {
		list = append(list, s.condition(p))
	}
	return strings.Join(list, " AND ")
}

func (s *statement) condition(p part) string {
	switch {
	case p == byStatus:
		return "r.status = ANY(" + s.arg(s.Statuses) + ")"
	case p == byOrigin && s.Origin == Retried:
		return isRetry
	case p == byOrigin:
		return "r.execution_origin = 'scheduled'"
	case p == byAnswer:
		return "NOT " + answeredSQL
	case p == byTask:
		return "r.task_id = " + s.arg(s.TaskID)
	default:
		return "r.trigger_id = " + s.arg(s.TriggerID)
	}
}

func (s *statement) times() (list []string) {
	if s.SinceMS > 0 {
		list = append(list, "r.created_at_ms >= "+s.arg(s.SinceMS))
	}
	if s.UntilMS > 0 {
		list = append(list, "r.created_at_ms < "+s.arg(s.UntilMS))
	}
	return list
}

// keysOf is everything that w's index is asked for.
func (s *statement) keysOf(w walk) string {
	keys := []string{w.keys}
	if slices.Contains(w.serves, byStatus) {
		keys = append(keys, "r.status = l.status")
	}
	return strings.Join(append(keys, s.times()...), " AND ")
}

// collect reads the rows of a statement.
func collect[T any](ctx context.Context, q pg.Querier, sql string, args []any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
