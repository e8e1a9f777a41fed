package web

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/run"
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

func (s *server) runs(c echo.Context) error {
	q, err := query(c, runsQuery...)
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	filter, after, err := runFilter(q, v)
	if err != nil {
		return err
	}
	list, err := run.List(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return err
	}
	older, next := "", ""
	if list.Next != nil {
		older = s.links.url("/runs", with(q, "after", list.Next.String()))
		next = s.links.url("/runs.json", with(q, "after", list.Next.String()))
	}
	return answer(c, func() any { return runsJSON{NowMS: v.nowMS, Runs: nonNil(list.Runs), Next: next} }, func() templ.Component { return templates.RunsPage(s.runsPage(c, v, q, list.Runs, older)) })
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
		return f, nil, badQuery("The parameter after is not a place in the list. Take it from a page's own link.")
	}
	return f, &after, nil
}

func (s *server) runsPage(c echo.Context, v viewer, q url.Values, list []run.Summary, older string) templates.Runs {
	page := templates.Runs{
		Page: s.page(c, "Runs", "Runs", v.nowMS), Action: s.links.url("/runs", nil),
		Projects: projectOptions(v, q.Get("project")), Since: sinceOptions(q.Get("since")),
		Task: visible(q.Get("task")), Trigger: visible(q.Get("trigger")), Until: visible(q.Get("until")),
		Rows: s.runRows(list, v.nowMS), Older: older, Filtered: len(nonEmpty(with(q, "after", ""))) > 0,
	}
	page.JSON = s.links.url("/runs.json", q)
	for _, status := range run.RunStatuses() {
		page.Statuses = append(page.Statuses, option(string(status), runStatuses[status].Word, q.Get("status")))
	}
	page.Statuses = append([]templates.Option{{Text: "any"}}, page.Statuses...)
	if q.Get("after") != "" {
		page.Newest = s.links.url("/runs", with(q, "after", ""))
	}
	page.Empty = s.noRuns(page.Filtered || page.Newest != "")
	return page
}

func (s *server) noRuns(filtered bool) templates.Empty {
	if filtered {
		return templates.Empty{Why: "No Run matches.", What: "The filters leave none: widen them, or look at every Run.",
			Link: templates.Link{Text: "Every Run", URL: s.links.runs()}}
	}
	return templates.Empty{Why: "No Run has been admitted yet.", What: "A Run appears when a Trigger falls due. See when the next one does.",
		Link: templates.Link{Text: "Schedules", URL: s.links.url("/schedules", nil)}}
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
		ID: shortID(r.ID, s.links.run(r.ID)), Status: runStatuses[r.Status], Reason: shorten(runReason(r), listText),
		Task:    templates.Link{Text: shorten(visible(r.TaskName), listName), URL: s.links.runs("project", r.ProjectID, "task", r.TaskID)},
		Project: r.ProjectID, Created: instant(r.CreatedAtMS, nowMS), Duration: took(r.StartedAtMS, r.FinishedAtMS, nowMS),
		Origin: templates.Link{Text: "retry"},
	}
	if r.TriggerID != nil {
		row.Origin = templates.Link{Text: *r.TriggerID, URL: s.links.schedule(r.ProjectID, *r.TriggerID)}
	}
	if late, ok := r.Late(); ok {
		row.Lateness = duration(late)
	}
	return row
}

// runReason says why a Run is in its state, as far as it says so itself.
func runReason(r run.Summary) string {
	var parts []string
	if r.ExitCode != nil && *r.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit %d", *r.ExitCode))
	}
	switch {
	case r.ErrorSummary != nil:
		parts = append(parts, visible(*r.ErrorSummary))
	case r.ErrorCode != nil && len(parts) == 0:
		parts = append(parts, strings.ReplaceAll(*r.ErrorCode, "_", " "))
	}
	return strings.Join(parts, " · ")
}

// took words how long something has run: so far, when it has not finished.
func took(started, finished *int64, nowMS int64) string {
	switch {
	case started == nil:
		return ""
	case finished == nil:
		return duration(max(nowMS-*started, 0)) + " so far"
	}
	return duration(*finished - *started)
}

func projectOptions(v viewer, selected string) []templates.Option {
	options := []templates.Option{{Text: "all"}}
	for _, p := range v.projects {
		text := shorten(visible(p.Name), 40)
		if p.Archived {
			text += " (archived)"
		}
		options = append(options, option(p.ID, text, selected))
	}
	return options
}

func sinceOptions(selected string) []templates.Option {
	options := []templates.Option{{Text: "any time"}, option("-1h", "last hour", selected), option("-24h", "last 24 hours", selected),
		option("-7d", "last 7 days", selected)}
	for _, o := range options {
		if o.Selected || selected == "" {
			return options
		}
	}
	return append(options, option(selected, "since "+visible(selected), selected))
}

func option(value, text, selected string) templates.Option {
	return templates.Option{Value: value, Text: text, Selected: value == selected}
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
