package web

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const pageSize = 50

var runsQuery = []string{"project", "status", "task", "trigger", "since", "until", "after"}

// runsJSON is a list of Runs for a client. Next is the address of the following part, empty at the end.
type runsJSON struct {
	NowMS int64         `json:"nowMs"` // the database clock
	Runs  []run.Summary `json:"runs"`
	Next  string        `json:"next,omitempty"`
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
	filter, after, err := runFilter(q, v)
	if err != nil {
		return reply{}, err
	}
	list, err := run.List(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return reply{}, err
	}
	older, next := "", ""
	if list.Next != nil {
		older = s.links.url("/runs", with(q, "after", list.Next.String()))
		next = s.links.url("/runs.json", with(q, "after", list.Next.String()))
	}
	return reply{
		json: func() any { return runsJSON{NowMS: v.nowMS, Runs: nonNil(list.Runs), Next: next} },
		page: func() templ.Component { return templates.RunsPage(s.runsPage(c, v, q, list.Runs, older)) },
		rows: s.runTable(filter),
	}, nil
}

// runFilter reads what the query asks for, of what v sees.
func runFilter(q url.Values, v viewer) (run.Filter, *pg.Cursor, error) {
	f := run.Filter{Projects: v.sees(q.Get("project")), TaskID: q.Get("task"), TriggerID: q.Get("trigger")}
	status, err := oneOf("status", q.Get("status"), run.RunStatuses())
	if err != nil {
		return f, nil, err
	}
	if status != "" {
		f.Statuses = []run.Status{status}
	}
	if f.SinceMS, err = moment("since", q.Get("since"), v.nowMS); err != nil {
		return f, nil, err
	}
	if f.UntilMS, err = moment("until", q.Get("until"), v.nowMS); err != nil {
		return f, nil, err
	}
	if q.Get("after") == "" {
		return f, nil, nil
	}
	after, err := pg.ParseCursor(q.Get("after"))
	if err != nil {
		return f, nil, badQuery(text.Of("The parameter after is not a place in the list. Take it from a page's own link."))
	}
	return f, &after, nil
}

func (s *server) runsPage(c echo.Context, v viewer, q url.Values, list []run.Summary, older string) templates.Runs {
	page := templates.Runs{
		Page: s.page(c, text.Of("Runs"), "/runs", v.nowMS), Action: s.links.url("/runs", nil),
		Projects: projectOptions(v, q.Get("project")), Since: sinceOptions(q.Get("since")),
		Task: visible(q.Get("task")), Trigger: visible(q.Get("trigger")), Until: visible(q.Get("until")),
		Rows: s.runRows(list, v.nowMS), Older: older, Filtered: len(filters(q)) > 0,
	}
	page.JSON = s.links.url("/runs.json", q)
	for _, status := range run.RunStatuses() {
		page.Statuses = append(page.Statuses, option(string(status), runStatuses[status].Word, q.Get("status")))
	}
	page.Statuses = append([]templates.Option{{Text: text.Of("any")}}, page.Statuses...)
	if q.Get("after") != "" {
		page.Newest = s.links.url("/runs", with(q, "after", ""))
	}
	page.Empty = s.noRuns(page.Filtered || page.Newest != "")
	return page
}

func (s *server) noRuns(filtered bool) templates.Empty {
	if filtered {
		return templates.Empty{Why: text.Of("No Run matches."), What: text.Of("The filters leave none: widen them, or look at every Run."),
			Link: templates.Link{Text: text.Of("Every Run"), URL: s.links.runs()}}
	}
	return templates.Empty{Why: text.Of("No Run has been admitted yet."), What: text.Of("A Run appears when a Trigger falls due. See when the next one does."),
		Link: templates.Link{Text: text.Of("Schedules"), URL: s.links.url("/schedules", nil)}}
}

func (s *server) runRows(list []run.Summary, nowMS int64) []templates.RunRow {
	var rows []templates.RunRow
	for _, r := range list {
		rows = append(rows, s.runRow(r, nowMS))
	}
	return rows
}

func (s *server) runRow(r run.Summary, nowMS int64) templates.RunRow {
	row := templates.RunRow{
		ID: shortID(r.ID, s.links.run(r.ID)), Status: runStatuses[r.Status], Reason: runReason(r).Map(brief),
		Task:    templates.Link{Text: text.Data(shorten(visible(r.TaskName), listName)), URL: s.links.runs("project", r.ProjectID, "task", r.TaskID)},
		Project: r.ProjectID, Created: instant(r.CreatedAtMS, nowMS), Duration: took(r.StartedAtMS, r.FinishedAtMS, nowMS),
		Origin: templates.Link{Text: text.Of("retry")},
	}
	if r.TriggerID != nil {
		row.Origin = templates.Link{Text: text.Data(*r.TriggerID), URL: s.links.schedule(r.ProjectID, *r.TriggerID)}
	}
	if late, ok := r.Late(); ok {
		row.Lateness = duration(late)
	}
	return row
}

// runReason says why a Run is in its state, as far as it says so itself.
func runReason(r run.Summary) text.Text {
	var parts []text.Text
	if r.ExitCode != nil && *r.ExitCode != 0 {
		parts = append(parts, text.Of("exit %s", strconv.Itoa(*r.ExitCode)))
	}
	switch {
	case r.ErrorSummary != nil:
		parts = append(parts, text.Data(visible(*r.ErrorSummary)))
	case r.ErrorCode != nil && len(parts) == 0:
		parts = append(parts, text.Data(strings.ReplaceAll(*r.ErrorCode, "_", " ")))
	}
	return text.Join(text.Data(" · "), parts...)
}

// brief is as much of s as a list has room for.
func brief(s string) string { return shorten(s, listText) }

// took words how long something has run: so far, when it has not finished.
func took(started, finished *int64, nowMS int64) text.Text {
	switch {
	case started == nil:
		return text.Text{}
	case finished == nil:
		return text.Of("%s so far", duration(max(nowMS-*started, 0)))
	}
	return duration(*finished - *started)
}

func projectOptions(v viewer, selected string) []templates.Option {
	options := []templates.Option{{Text: text.Of("all")}}
	for _, p := range v.projects {
		name := text.Data(shorten(visible(p.Name), 40))
		if p.Archived {
			name = text.Of("%s (archived)", name)
		}
		options = append(options, option(p.ID, name, selected))
	}
	return options
}

func sinceOptions(selected string) []templates.Option {
	options := []templates.Option{{Text: text.Of("any time")}, option("-1h", text.Of("last hour"), selected),
		option("-24h", text.Of("last 24 hours"), selected), option("-7d", text.Of("last 7 days"), selected)}
	for _, o := range options {
		if o.Selected || selected == "" {
			return options
		}
	}
	return append(options, option(selected, text.Of("since %s", visible(selected)), selected))
}

func option(value string, words text.Text, selected string) templates.Option {
	return templates.Option{Value: value, Text: words, Selected: value == selected}
}

// with returns q with one value replaced.
func with(q url.Values, name, value string) url.Values {
	changed := url.Values{}
	for k, v := range q {
		changed[k] = v
	}
	changed.Set(name, value)
	return changed
}

// nonNil makes an empty list [] in JSON.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// publicURL is path, made by links, as somebody elsewhere opens it.
func (s *server) publicURL(path string) string {
	u := url.URL{Scheme: s.PublicURL.Scheme, Host: s.PublicURL.Host}
	return u.String() + path
}

var runColumns = []string{"id", "project", "task", "task_revision", "task_name", "trigger", "scheduled_for", "retry_of", "status", "exit_code", "error_code",
	"error_summary", "created_at", "started_at", "finished_at"}

// runTable is every Run that f lets through, for an export.
func (s *server) runTable(f run.Filter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(runColumns, func(after *pg.Cursor) ([]run.Summary, *pg.Cursor, error) {
			page, err := run.List(ctx, s.DB, f, after, exportPage)
			return page.Runs, page.Next, err
		}, func(r run.Summary) []string {
			return []string{r.ID.String(), r.ProjectID, r.TaskID, strconv.FormatInt(r.TaskRevision, 10), r.TaskName, optional(r.TriggerID), cellTime(r.ScheduledForMS),
				optional(r.RetryOf), string(r.Status), optional(r.ExitCode), optional(r.ErrorCode), optional(r.ErrorSummary), cellTime(&r.CreatedAtMS),
				cellTime(r.StartedAtMS), cellTime(r.FinishedAtMS)}
		})
	}
}
