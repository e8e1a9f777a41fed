package web

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	pageSize = 50
	runsPath = "/runs"
)

var runsQuery = []string{"project", "status", "origin", "task", "trigger", "since", "until", zoneParameter, "q", "retried", "group", "select", "after", "before"}

// runsJSON is a list of Runs for a client. Next is the address of the following part, which is older, and Prev that of
// the one before; empty at an end.
type runsJSON struct {
	NowMS  int64                    `json:"nowMs"` // the database clock
	Counts map[run.Status]run.Count `json:"counts"`
	Runs   []run.Summary            `json:"runs"`
	// Partial tells that q names more than is looked for: Runs that match are missing.
	Partial bool   `json:"partial,omitempty"`
	Next    string `json:"next,omitempty"`
	Prev    string `json:"prev,omitempty"`
}

// runsRead are the Runs of one page as they were read for all who asked for it together.
type runsRead struct {
	run.Page
	beside scheduler.Beside
	rows   []templates.RunRow
	kept   *templates.Kept
}

// runsFound are the Runs of one page, and how many there are of each status whatever statuses are asked for.
type runsFound struct {
	runsRead
	counts  map[run.Status]run.Count
	ids     search.IDs       // for the fields that want one
	unknown *templates.Empty // if the id that is asked for is nothing's
}

func (s *server) runs(c echo.Context) (reply, error) {
	q, err := query(c, runsQuery...)
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	ids, err := s.idsFor(c, v.sees(q.Get("project")))
	if err != nil {
		return reply{}, err
	}
	filter, err := runFilter(q, v)
	if err != nil {
		return s.again(c, err, func(wrong problem) templ.Component {
			return templates.RunsPage(offer(s.runsForm(c, v, q, filter, wrong), ids))
		})
	}
	at, err := readSpot(q)
	if err != nil {
		return reply{}, err
	}
	if q.Get("group") != "" {
		return s.incident(c, v, q, filter, ids)
	}
	found := reply{rows: s.runTable(filter)}
	if s.mediumOf(c) == asCSV {
		return found, nil
	}
	list := runsFound{ids: ids}
	if list.runsRead, err = s.readRuns(c.Request().Context(), filter, at, v.nowMS, s.mediumOf(c) != asJSON); err != nil {
		return reply{}, err
	}
	if list.counts, err = s.countRuns(c.Request().Context(), filter); err != nil {
		return reply{}, err
	}
	if len(list.Runs) == 0 && s.mediumOf(c) != asJSON {
		if list.unknown, err = s.noSuchID(c.Request().Context(), q, filter); err != nil {
			return reply{}, err
		}
	}
	found.json = func() any {
		return runsJSON{NowMS: v.nowMS, Counts: list.counts, Runs: nonNil(list.Runs), Partial: list.Partial, Next: onwards(s.links, runsPath+".json", q, "after", list.Next),
			Prev: onwards(s.links, runsPath+".json", q, "before", list.Prev)}
	}
	found.page = func() templ.Component { return templates.RunsPage(s.runsPage(c, v, q, filter, list)) }
	return found, nil
}

// A spot is a place in a list of which both ways lead away: its page begins after the one, or ends before the other. The
// zero spot is the beginning.
type spot struct{ after, before *pg.Cursor }

func readSpot(q url.Values) (at spot, err error) {
	if at.after, err = place("after", q, pg.ParseCursor); err != nil {
		return at, err
	}
	if at.before, err = place("before", q, pg.ParseCursor); err != nil {
		return at, err
	}
	if at.after != nil && at.before != nil {
		return at, badQuery(text.Of("Give either after or before."))
	}
	return at, nil
}

// readRuns reads the page at a spot: after it, which is older, or before it. With rows it is made into those of a page, which
// say how long ago things were by when they are read: that may be long after nowMS, if another reading goes first.
func (s *server) readRuns(ctx context.Context, f run.Filter, at spot, nowMS int64, rows bool) (runsRead, error) {
	asked := time.Now()
	return together(ctx, &s.gathering, "runs", []any{f, at.after, at.before, rows}, func(ctx context.Context) (read runsRead, err error) {
		if at.before != nil {
			read.Page, err = run.Newer(ctx, s.DB, f, *at.before, pageSize)
		} else {
			read.Page, err = run.List(ctx, s.DB, f, at.after, pageSize)
		}
		if err != nil || !rows {
			return read, err
		}
		if read.beside, err = s.readBeside(ctx, f.Projects, read.Runs); err != nil {
			return read, err
		}
		read.rows = s.runRowsBeside(read.Runs, read.beside, nowMS+time.Since(asked).Milliseconds())
		if len(read.rows) > 0 { // in the place of none stands what its reader asked for
			read.kept = new(templates.Kept)
		}
		return read, nil
	})
}

// countRuns counts the Runs of a filter by status, whatever statuses it asks for.
func (s *server) countRuns(ctx context.Context, f run.Filter) (map[run.Status]run.Count, error) {
	f.Statuses = nil
	return share(ctx, s.recent, "runs", f, func(ctx context.Context) (map[run.Status]run.Count, error) { return run.CountByStatus(ctx, s.DB, f) })
}

// whole is err, or refuses a text that names more than is looked for, where nobody would notice what is missing.
func whole(partial bool, err error) error {
	if err == nil && partial {
		return badQuery(text.Of("The text names more than is looked for, and some that match would be missing. Write more of the name."))
	}
	return err
}

// partial says that some of a list are missing, if they are.
func partial(is bool) text.Text {
	if !is {
		return text.Text{}
	}
	return text.Of("The text names more than is looked for, and some that match are missing here. Write more of the name.")
}

// runFilter reads what the query asks for, of what v sees.
func runFilter(q url.Values, v viewer) (f run.Filter, err error) {
	f = run.Filter{Projects: v.sees(q.Get("project")), TaskID: q.Get("task"), TriggerID: q.Get("trigger"), Text: q.Get("q")}
	if f.Statuses, err = anyOf("status", q.Get("status"), run.RunStatuses()); err != nil {
		return f, err
	}
	if f, err = ofFailures(q, f); err != nil {
		return f, err
	}
	if f.Origin, err = oneOf("origin", q.Get("origin"), run.Origins()); err != nil {
		return f, err
	}
	times, err := momentsOf(q, v.nowMS)
	if err != nil {
		return f, err
	}
	if f.SinceMS, err = times.since("since", q.Get("since")); err != nil {
		return f, err
	}
	f.UntilMS, err = times.until("until", q.Get("until"))
	return f, err
}

// What only failures have: a grouping, and whether a newer Run of their retry family stands for them.
var (
	groupings = []string{"task"}
	retrieds  = []string{"no"}
)

// ofFailures restricts f to failures where the query is about nothing else. One that asks for others as well is answered as
// if it did not, and one that asks for others alone is refused: it contradicts itself.
func ofFailures(q url.Values, f run.Filter) (_ run.Filter, err error) {
	group, err := oneOf("group", q.Get("group"), groupings)
	if err != nil {
		return f, err
	}
	retried, err := oneOf("retried", q.Get("retried"), retrieds)
	if err != nil || group == "" && retried == "" {
		return f, err
	}
	f.Unanswered = retried != ""
	if len(f.Statuses) == 0 {
		f.Statuses = run.Troubles()
	}
	if f.Statuses = both(f.Statuses, run.Troubles()); len(f.Statuses) == 0 {
		return f, badQuery(text.Of("This view is of failures alone, and the status %s is none. Leave the status out, or leave the view.", cited(q.Get("status"))))
	}
	return f, nil
}

// aboutFailures reports whether what q asks for is about failures alone.
func aboutFailures(q url.Values) bool { return q.Get("group") != "" || q.Get("retried") != "" }

// runsForm is the page of Runs with what is asked for and without what was found, for which there is a reason if something
// is wrong.
func (s *server) runsForm(c echo.Context, v viewer, q url.Values, f run.Filter, wrong problem) templates.Runs {
	page := templates.Runs{
		Page: s.page(c, text.Of("Runs"), runsPath, v.nowMS), Filters: s.filterForm(runsPath, q), Projects: projectOptions(v, q.Get("project")),
		Origins: originOptions(q.Get("origin")), Status: visible(q.Get("status")), Task: visible(q.Get("task")), Trigger: visible(q.Get("trigger")),
		Since: momentField("since", text.Of("Created since"), q, f.SinceMS, v.nowMS, wrong), Until: momentField("until", text.Of("Until"), q, f.UntilMS, v.nowMS, wrong),
		Text: visible(q.Get("q")), Group: visible(q.Get("group")), Retried: visible(q.Get("retried")), Views: s.views(q),
	}
	page.Filters.Wrong, page.Filters.Beside = wrong.what, wrong.field == "since" || wrong.field == "until"
	page.Live = page.Live && wrong.status == 0
	return page
}

func (s *server) runsPage(c echo.Context, v viewer, q url.Values, f run.Filter, list runsFound) templates.Runs {
	page := offer(s.runsForm(c, v, q, f, problem{}), list.ids)
	page.Chips, page.Rows, page.Kept = s.runChips(q, list.counts), list.rows, list.kept
	page.Pages = templates.Pages{Order: templates.NewestFirst, Back: onwards(s.links, runsPath, q, "before", list.Prev), On: onwards(s.links, runsPath, q, "after", list.Next)}
	page.JSON, page.CSV = s.links.url(runsPath+".json", q), s.links.csv(runsPath, filters(q))
	if list.Prev != nil {
		page.Pages.First = s.links.url(runsPath, without(q, "after", "before"))
	}
	page.Empty, page.Filters.Partial = s.noRuns(q, list), partial(list.Partial)
	s.pickRows(v, q, list, &page)
	return page
}

func (s *server) noRuns(q url.Values, list runsFound) templates.Empty {
	every := templates.Link{Text: text.Of("Every Run"), URL: s.links.runs()}
	switch {
	case list.unknown != nil:
		return *list.unknown
	case list.Next != nil:
		return templates.Empty{Why: text.Of("None of the Runs looked at so far matches."), What: text.Of("There are more than are looked at in one go."),
			Link: templates.Link{Text: text.Of("Look further"), URL: onwards(s.links, runsPath, q, "after", list.Next)}}
	case q.Get("retried") != "":
		return templates.Empty{Why: text.Of("No failure waits for a retry."), What: text.Of("For every failure of this filter a newer Run of its retry family stands, or there is none."), Link: every}
	case len(filters(q)) > 0:
		return templates.Empty{Why: text.Of("No Run matches."), What: text.Of("The filters leave none: widen them, or look at every Run."), Link: every}
	case list.Prev != nil:
		return templates.Empty{Why: text.Of("There is nothing older."), What: text.Of("The list ends before this place."), Link: every}
	}
	return templates.Empty{Why: text.Of("No Run has been admitted yet."), What: text.Of("A Run appears when a Trigger falls due. See when the next one does."),
		Link: templates.Link{Text: text.Of("Schedules"), URL: s.links.url(schedulesPath, nil)}}
}

// runChips are the statuses, each with how many Runs it has, as choices of which any number may be taken.
func (s *server) runChips(q url.Values, counts map[run.Status]run.Count) []templates.Chip {
	chosen, _ := anyOf("status", q.Get("status"), run.RunStatuses()) // it was read before
	kinds := run.RunStatuses()
	if aboutFailures(q) {
		kinds = run.Troubles()
	}
	chips := chipsOf(counts, kinds)
	for i, status := range kinds {
		chips[i+1].Status, chips[i+1].Current = runStatuses[status], slices.Contains(chosen, status)
		chips[i+1].URL = s.links.url(runsPath, with(without(q, "after", "before"), "status", toggled(chosen, status)))
	}
	chips[0].URL, chips[0].Current = s.links.url(runsPath, without(q, "status", "after", "before")), len(chosen) == 0
	return chips
}

func originOptions(selected string) []templates.Option {
	return []templates.Option{{Text: text.Of("any")}, option(string(run.Scheduled), text.Of("scheduled"), selected), option(string(run.Retried), text.Of("retry"), selected)}
}

var runColumns = []string{"id", "project", "task", "task_revision", "task_name", "trigger", "scheduled_for", "retry_of", "status", "exit_code", "error_code",
	"error_summary", "created_at", "started_at", "finished_at"}

// runTable is every Run that f lets through, for an export.
func (s *server) runTable(f run.Filter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(runColumns, func(after *pg.Cursor) ([]run.Summary, *pg.Cursor, error) {
			page, err := run.List(ctx, s.DB, f, after, exportPage)
			return page.Runs, page.Next, whole(page.Partial, err)
		}, func(r run.Summary) []string {
			return []string{r.ID.String(), r.ProjectID, r.TaskID, strconv.FormatInt(r.TaskRevision, 10), r.TaskName, optional(r.TriggerID), cellTime(r.ScheduledForMS),
				optional(r.RetryOf), string(r.Status), optional(r.ExitCode), optional(r.ErrorCode), optional(r.ErrorSummary), cellTime(&r.CreatedAtMS),
				cellTime(r.StartedAtMS), cellTime(r.FinishedAtMS)}
		})
	}
}
