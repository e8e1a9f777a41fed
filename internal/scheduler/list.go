package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/search"
)

// MaxPage is the largest number of Schedules that one [List] returns.
const MaxPage = 200

// Filter says which Schedules a list is of. An empty field does not restrict, except Projects.
type Filter struct {
	Projects []string
	State    State
	Text     string // part of the Trigger's id, or of its Task's id or name
}

// Page is a part of a list. Next is where the following part begins, or nil at the end.
//
// No index has every state and every text: a page ends where as many Schedules as are looked at once have been looked
// at. Then it is shorter than asked for, possibly empty, and Next leads on.
type Page struct {
	NowMS     int64 // the clock the states were judged by
	Schedules []Summary
	Next      *Cursor
	// Partial tells that the filter's text names more Tasks than are looked for: Schedules that fit are on no page.
	Partial bool
}

// The bounds of one list or count.
const (
	lookedAt  = 5000   // Schedules whose state has to be judged
	idsSeen   = 20_000 // Schedules whose id is compared: it is in the index
	ofOneTask = 5000   // Triggers of the Tasks that a text names
)

// A walk is one way through an index of trigger_schedules (s) in the order of the list: a lane for each Project p.
type walk struct {
	keys   string // what the index restricts to
	sort   string // what the lane is ordered by before the Trigger's id
	judged bool   // it meets Schedules of more than one state
	states []State
}

const cursorSQL = "coalesce(s.next_fire_at_ms, -1)"

// walks lists the walks that together meet every Schedule. The first that meets a state comes before those that do not.
var walks = []walk{
	{keys: "s.enabled AND " + cursorSQL + " <= " + nowSQL, sort: cursorSQL, judged: true, states: []State{Blocked, Claimed, Due}},
	{keys: "s.enabled AND " + cursorSQL + " > " + nowSQL, sort: cursorSQL, judged: true, states: []State{Blocked, Claimed, NeverRun, Waiting}},
	{keys: "NOT s.enabled", sort: strconv.Itoa(noNext), judged: true, states: []State{Paused, Disabled}},
}

// ownWalks are those of the states that have an index of their own.
var ownWalks = map[State]walk{
	Blocked: {keys: "s.enabled AND s.blocked_reason IS NOT NULL", sort: cursorSQL, states: []State{Blocked}},
	Paused:  {keys: "s.pause_id IS NOT NULL", sort: strconv.Itoa(noNext), states: []State{Paused}},
}

func walksOf(state State) []walk {
	if w, ok := ownWalks[state]; ok {
		return []walk{w}
	}
	return slices.DeleteFunc(slices.Clone(walks), func(w walk) bool { return state != "" && !slices.Contains(w.states, state) })
}

// statement builds one statement about the Schedules of a filter.
type statement struct {
	Filter
	found search.Found
	args  []any
}

func newStatement(ctx context.Context, q pg.Querier, f Filter) (_ *statement, err error) {
	s := &statement{Filter: f}
	s.Projects = slices.Clone(f.Projects)
	slices.Sort(s.Projects)
	s.Projects = slices.Compact(s.Projects)
	if s.Text = strings.ToLower(strings.TrimSpace(f.Text)); s.Text != "" {
		s.found, err = search.Find(ctx, q, s.Projects, s.Text)
	}
	return s, err
}

func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// List returns at most n Schedules (1 to [MaxPage]) that match f, the next due first, from after on; disabled ones come
// last. A Schedule that advances while its reader pages moves towards the end: it may be seen twice, never missed.
func List(ctx context.Context, q pg.Querier, f Filter, after *Cursor, n int) (_ Page, err error) {
	defer pg.Wrap(&err, "scheduler.List(%d projects)", len(f.Projects))
	n = min(max(n, 1), MaxPage)
	s, err := newStatement(ctx, q, f)
	if err != nil {
		return Page{}, err
	}
	rows, err := q.Query(ctx, s.listSQL(after, n+1), s.args...)
	if err != nil {
		return Page{}, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[met])
	page := pageOf(list, n)
	page.Partial = s.found.Cut.Tasks
	return page, err
}

// met is a Schedule that a walk met. Beyond one with Cut its lane was not walked: there may be others that fit.
type met struct {
	Summary
	Sort, NowMS int64
	Fits, Cut   bool
}

func (m met) place() *Cursor {
	return &Cursor{NextMS: m.Sort, ProjectID: m.ProjectID, TriggerID: m.TriggerID}
}

func pageOf(list []met, n int) (page Page) {
	var last met
	for _, m := range list {
		page.NowMS = m.NowMS
		if m.Fits && len(page.Schedules) == n {
			page.Next = last.place()
			break
		}
		if m.Fits {
			page.Schedules, last = append(page.Schedules, m.Summary), m
		}
		if m.Cut {
			page.Next = m.place()
			break
		}
	}
	return page
}

// listSQL merges what the lanes of all walks meet first.
func (s *statement) listSQL(after *Cursor, limit int) string {
	return fmt.Sprintf(`WITH clock AS MATERIALIZED (SELECT %s AS ms), page AS MATERIALIZED (SELECT * FROM (%s) m LIMIT %d)
SELECT %s, s.sort, clock.ms, page.fits, page.cut FROM clock CROSS JOIN page
JOIN (%s) s ON s.project_id = page.project_id AND s.trigger_id = page.trigger_id
JOIN trigger_revisions g ON g.project_id = s.project_id AND g.trigger_id = s.trigger_id AND g.revision = s.trigger_revision
%s
ORDER BY page.sort, page.project_id, page.trigger_id`, pg.ClockMS, s.metSQL(after, limit), limit, summaryColumns, judged, alongside)
}

// metSQL selects what the walks meet, in the order of the list.
func (s *statement) metSQL(after *Cursor, limit int) string {
	const inOrder = " ORDER BY m.sort, m.project_id, m.trigger_id"
	var list []string
	for _, w := range walksOf(s.State) {
		list = append(list, s.lanes(w, after, limit))
	}
	if len(s.found.Tasks) == 0 {
		// Each walk's Schedules come before the next one's, which is not walked if they fill the page.
		for i := range list {
			list[i] = fmt.Sprintf("(SELECT m.* FROM (%s) m%s LIMIT %d)", list[i], inOrder, limit)
		}
		return strings.Join(list, "\nUNION ALL\n")
	}
	// A Schedule that more than one meets is one row.
	return fmt.Sprintf(`SELECT m.project_id, m.trigger_id, m.sort, bool_or(m.fits) AS fits, bool_or(m.cut) AS cut FROM (%s) m
    GROUP BY m.sort, m.project_id, m.trigger_id%s`, strings.Join(append(list, s.tasksLane(after, limit)), "\nUNION ALL\n"), inOrder)
}

// lanes selects the first Schedules that w meets in each Project, and the last looked at if no more may be.
func (s *statement) lanes(w walk, after *Cursor, limit int) string {
	projects := "unnest(" + s.arg(s.Projects) + "::text[]) AS p(id)"
	over, beyond := projects, ""
	if after != nil {
		// Within one Project, after a place is after its instant or, at that instant, after its Trigger: a row comparison
		// that the index knows. Which of the two comes first between Projects is the database's to say.
		at, project, trigger := s.arg(after.NextMS), s.arg(after.ProjectID), s.arg(after.TriggerID)
		over = fmt.Sprintf(`(SELECT id, CASE WHEN id < %[3]s THEN %[2]s::bigint + 1 ELSE %[2]s::bigint END AS at,
        CASE WHEN id = %[3]s THEN %[4]s::text ELSE '' END AS trigger FROM %[1]s) p`, projects, at, project, trigger)
		beyond = w.after("p.at", "p.trigger")
	}
	lane := fmt.Sprintf("SELECT s.project_id, s.trigger_id, %s::bigint AS sort FROM trigger_schedules s WHERE s.project_id = p.id AND %s", w.sort, w.keys)
	fits := s.fits(w)
	if fits == "" {
		return w.heads(over, lane, beyond, limit, run.HeadOf(limit, len(s.Projects)))
	}
	return fmt.Sprintf(`SELECT c.* FROM %[1]s CROSS JOIN LATERAL (
        SELECT x.project_id, x.trigger_id, x.sort, x.fits, x.nth = %[6]d AS cut FROM (
            SELECT s.project_id, s.trigger_id, %[3]s::bigint AS sort, %[4]s AS fits, row_number() OVER (ORDER BY %[5]s) AS nth
            FROM trigger_schedules s WHERE s.project_id = p.id AND %[2]s ORDER BY %[5]s LIMIT %[6]d) x
        WHERE x.fits OR x.nth = %[6]d LIMIT %[7]d) c`, over, w.keys+beyond, w.sort, fits, w.order(), s.most(w, limit), limit)
}

// heads selects the first Schedules of lanes of which all fit. Of many lanes only the heads are looked at: the last of the
// first limit of all heads is a bound that none of the page is beyond, and a lane is walked on, as far as the bound, only if
// all of its head comes before it.
func (w walk) heads(over, lane, beyond string, limit, head int) string {
	if head == limit {
		return fmt.Sprintf("SELECT c.*, true AS fits, false AS cut FROM %s CROSS JOIN LATERAL (%s ORDER BY %s LIMIT %d) c", over, lane+beyond, w.order(), limit)
	}
	until := ""
	if w.sort == cursorSQL {
		until = fmt.Sprintf(" AND %s <= coalesce((SELECT sort FROM bound), %d)", cursorSQL, noNext)
	}
	return fmt.Sprintf(`WITH head AS MATERIALIZED (
        SELECT p.id, c.* FROM %[1]s CROSS JOIN LATERAL (
            SELECT c.*, row_number() OVER (ORDER BY c.sort, c.trigger_id) AS nth FROM (%[2]s%[3]s ORDER BY %[4]s LIMIT %[6]d) c) c
        ORDER BY c.sort, c.project_id, c.trigger_id LIMIT %[5]d
    ), bound AS MATERIALIZED (SELECT sort FROM head OFFSET %[5]d - 1)
    SELECT project_id, trigger_id, sort, true AS fits, false AS cut FROM head
    UNION ALL
    SELECT c.*, true, false FROM head p CROSS JOIN LATERAL (
        %[2]s%[7]s%[8]s ORDER BY %[4]s LIMIT %[5]d - %[6]d) c
    WHERE p.nth = %[6]d`, over, lane, beyond, w.order(), limit, head, w.after("p.sort", "p.trigger_id"), until)
}

// after restricts a lane to what comes after an instant and, at that, after a Trigger.
func (w walk) after(at, trigger string) string {
	if w.sort == cursorSQL {
		return fmt.Sprintf(" AND (%s, s.trigger_id) > (%s, %s)", cursorSQL, at, trigger)
	}
	// All of them are at one instant, which is no column of the index.
	return fmt.Sprintf(" AND %[2]s <= %[1]s AND s.trigger_id > CASE WHEN %[2]s < %[1]s THEN '' ELSE %[3]s END", w.sort, at, trigger)
}

func (w walk) order() string {
	if w.sort == cursorSQL {
		return cursorSQL + ", s.trigger_id"
	}
	return "s.trigger_id"
}

// fits is what the filter asks for beyond what w's index restricts to, or "".
func (s *statement) fits(w walk) string {
	var fits []string
	if s.State != "" && w.judged {
		fits = append(fits, stateSQL+" = "+s.arg(s.State))
	}
	if s.Text != "" {
		fits = append(fits, "strpos(s.trigger_id, "+s.arg(s.Text)+") > 0")
	}
	return strings.Join(fits, " AND ")
}

// most is how many Schedules of one lane are looked at.
func (s *statement) most(w walk, limit int) int {
	all := idsSeen
	if s.State != "" && w.judged {
		all = lookedAt
	}
	return max(all/max(len(s.Projects), 1), limit)
}

// tasksLane selects the Schedules of the Tasks that the text names.
func (s *statement) tasksLane(after *Cursor, limit int) string {
	where := s.namedState()
	if after != nil {
		where += fmt.Sprintf(" AND (s.sort, s.project_id, s.trigger_id) > (%s, %s, %s)", s.arg(after.NextMS), s.arg(after.ProjectID), s.arg(after.TriggerID))
	}
	return fmt.Sprintf(`(SELECT s.project_id, s.trigger_id, s.sort, true, false FROM (%s) s WHERE %s
        ORDER BY s.sort, s.project_id, s.trigger_id LIMIT %d)`, s.ofTasks(), where, limit)
}

func (s *statement) namedState() string {
	if s.State == "" {
		return "true"
	}
	return "s.state = " + s.arg(s.State)
}

// ofTasks selects the Schedules, judged, whose current revision is of a Task that the text names.
func (s *statement) ofTasks() string {
	var projects, tasks []string
	for _, t := range s.found.Tasks {
		projects, tasks = append(projects, t.ProjectID), append(tasks, t.ID)
	}
	return fmt.Sprintf(`SELECT s.* FROM unnest(%s::text[], %s::text[]) AS t(project, task)
        CROSS JOIN LATERAL (SELECT g.trigger_id, max(g.revision) AS revision FROM trigger_revisions g
            WHERE g.task_id = t.task AND g.project_id = t.project GROUP BY g.trigger_id LIMIT %d) g
        JOIN (%s) s ON s.project_id = t.project AND s.trigger_id = g.trigger_id AND s.trigger_revision = g.revision LIMIT %[3]d`,
		s.arg(projects), s.arg(tasks), ofOneTask, judged)
}

// CountByState counts the Schedules that match f, whatever its State, apart by state; a state without any is missing,
// unless there may be more. It looks at a bounded number of them and then says that there may be more.
func CountByState(ctx context.Context, q pg.Querier, f Filter) (_ map[State]run.Count, err error) {
	defer pg.Wrap(&err, "scheduler.CountByState(%d projects)", len(f.Projects))
	f.State = ""
	s, err := newStatement(ctx, q, f)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, s.countSQL(), s.args...)
	if err != nil {
		return nil, err
	}
	fits, looked := map[State]int{}, make([]int, len(countWalks)+1)
	var state State
	var which, fit, all int
	_, err = pgx.ForEachRow(rows, []any{&which, &state, &fit, &all}, func() error {
		looked[which] += all
		fits[state] += fit
		if which == pausedAgain {
			fits[Disabled] -= fit
		}
		return nil
	})
	return counts(fits, looked, s.found.Cut.Tasks), err
}

// countWalks meet every Schedule, and what somebody holds back once more: how many of the idle those are one index tells,
// and how many are idle another, so that none of them has to be judged.
var countWalks = []walk{walks[0], walks[1], {keys: walks[2].keys, states: []State{Disabled}}, ownWalks[Paused]}

const pausedAgain = 3

// counts makes counts of what fits in each state and of how many Schedules each of countWalks looked at. Where the text is
// looked for in part, there may be more of each.
func counts(fits map[State]int, looked []int, partial bool) map[State]run.Count {
	counts := map[State]run.Count{}
	for state, n := range fits {
		counts[state] = run.Count{N: min(n, run.CountCap), More: partial && n > 0}
	}
	for i, w := range countWalks {
		for _, state := range w.states {
			if looked[i] > run.CountCap {
				counts[state] = run.Count{N: counts[state].N, More: true}
			}
		}
	}
	maps.DeleteFunc(counts, func(_ State, c run.Count) bool { return c == run.Count{} })
	return counts
}

// countSQL counts by state, for each walk by itself, those that fit and all that are looked at. What the Tasks that the
// text names have beyond the walks stands under a number of its own.
func (s *statement) countSQL() string {
	var list []string
	for i, w := range countWalks {
		state, judged, group := "'"+string(w.states[0])+"'", "", ""
		if w.judged {
			state, judged, group = "m.state", stateSQL+" AS state, ", " GROUP BY m.state"
		}
		list = append(list, fmt.Sprintf(`SELECT %d, %s, count(*) FILTER (WHERE m.fits)::int, count(*)::int FROM (
    SELECT c.* FROM unnest(%s::text[]) AS p(id) CROSS JOIN LATERAL (
        SELECT %s%s AS fits FROM trigger_schedules s WHERE s.project_id = p.id AND %s LIMIT %d) c LIMIT %[7]d) m%s`,
			i, state, s.arg(s.Projects), judged, cmp.Or(s.fits(w), "true"), w.keys, run.CountCap+1, group))
	}
	if len(s.found.Tasks) > 0 {
		list = append(list, fmt.Sprintf(`SELECT %d, s.state, count(*)::int, count(*)::int FROM (%s) s WHERE strpos(s.trigger_id, %s) = 0 GROUP BY s.state`,
			len(countWalks), s.ofTasks(), s.arg(s.Text)))
	}
	return "WITH clock AS MATERIALIZED (SELECT " + pg.ClockMS + " AS ms)\n" + strings.Join(list, "\nUNION ALL\n")
}
