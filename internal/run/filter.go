package run

import (
	"context"
	"encoding/binary"
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

// A walk is one way through an index of runs (r), newest first: a lane for each row of over, which is a Project p as a rule.
// With [byStatus] among what it serves there is a lane for each status s, too.
type walk struct {
	over   string
	keys   string // what the index restricts to
	serves []part // the parts of the filter that keys express
	each   int    // lanes that a Project has, apart from those by status; 0 is one
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
	projects := "unnest(" + s.arg(s.Projects) + "::text[]) AS p(id)"
	keys := "r.project_id = p.id"
	switch {
	case s.TriggerID != "":
		id := s.arg(s.TriggerID)
		over := "(SELECT t.project_id AS id FROM " + projects + " JOIN triggers t ON t.project_id = p.id AND t.trigger_id = " + id + ") AS p"
		return []walk{{over: over, keys: keys + " AND r.trigger_id = " + id, serves: []part{byTrigger, byStatus, byOrigin}}}
	case s.Origin == Retried:
		return []walk{{over: projects, keys: keys + " AND " + isRetry, serves: []part{byOrigin, byStatus}}}
	case s.TaskID != "":
		id := s.arg(s.TaskID)
		over := "(SELECT t.project_id AS id FROM " + projects + " JOIN task_definitions t ON t.project_id = p.id AND t.task_id = " + id + ") AS p"
		return []walk{{over: over, keys: keys + " AND r.task_id = " + id, serves: []part{byTask, byStatus}}}
	case statuses || len(s.Statuses) > 0:
		return []walk{{over: projects, keys: keys, serves: []part{byStatus}}}
	}
	return []walk{{over: projects, keys: keys}}
}

// isRetry is the condition of the partial indexes of retries.
const isRetry = "r.trigger_type = 'run_manual_retry'"

func (s *statement) textWalks() (list []walk) {
	if t := s.found.Tasks; len(t) > 0 {
		projects, ids := split(t, func(t search.Task) (string, string) { return t.ProjectID, t.ID })
		list = append(list, walk{over: "unnest(" + s.arg(projects) + "::text[], " + s.arg(ids) + "::text[]) AS p(id, task)",
			keys: "r.project_id = p.id AND r.task_id = p.task", serves: []part{byStatus}})
	}
	if t := s.found.Triggers; len(t) > 0 {
		projects, ids := split(t, func(t search.Trigger) (string, string) { return t.ProjectID, t.ID })
		list = append(list, walk{over: "unnest(" + s.arg(projects) + "::text[], " + s.arg(ids) + "::text[]) AS p(id, trigger)",
			keys: "r.project_id = p.id AND r.trigger_id = p.trigger", serves: []part{byStatus, byOrigin}})
	}
	return append(list, s.namedWalks()...)
}

// namedWalks meet the Runs whose id the text begins, and the retries of the users it names. They go Project by Project
// like every other: the place where a walk is cut must not be a Run that the reader may not see.
func (s *statement) namedWalks() (list []walk) {
	projects := func() string { return "unnest(" + s.arg(s.Projects) + "::text[]) AS p(id)" }
	if n := len(s.found.Users); n > 0 {
		var ids []string
		for _, u := range s.found.Users {
			ids = append(ids, u.ID.String())
		}
		list = append(list, walk{over: projects() + " CROSS JOIN unnest(" + s.arg(ids) + "::text[]) AS u(id)", each: n,
			keys: "r.project_id = p.id AND r.triggered_by = u.id AND " + isRetry})
	}
	if ids := s.found.RunIDs; ids != nil {
		list = append(list, walk{over: projects(), keys: "r.project_id = p.id AND r.created_at_ms BETWEEN " + s.arg(createdMS(ids.First)) +
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

// keysOf is everything that w's index is asked for: of the Runs newer or older than from, if there is one.
func (s *statement) keysOf(w walk, from *pg.Cursor, newer bool) string {
	keys := []string{w.keys}
	if slices.Contains(w.serves, byStatus) {
		keys = append(keys, "r.status = s.status")
	}
	keys = append(keys, s.times()...)
	than := "<"
	if newer {
		than = ">"
	}
	if from != nil {
		keys = append(keys, "(r.created_at_ms, r.id) "+than+" ("+s.arg(from.CreatedAtMS)+", "+s.arg(from.ID)+")")
	}
	return strings.Join(keys, " AND ")
}

// order is that of the list.
func order(newer bool) string {
	direction := " DESC"
	if newer {
		direction = " ASC"
	}
	return "r.created_at_ms" + direction + ", r.id" + direction
}

// collect reads the rows of a statement.
func collect[T any](ctx context.Context, q pg.Querier, sql string, args []any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
