package web

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// incidentJSON is what went wrong for a client.
type incidentJSON struct {
	NowMS int64 `json:"nowMs"`
	run.Incident
}

// incident is the view of a filter's failures by Task: what a reader wants the morning after.
func (s *server) incident(c echo.Context, v viewer, q url.Values, f run.Filter, ids search.IDs) (found reply, err error) {
	ctx := c.Request().Context()
	i, err := run.ReadIncident(ctx, s.DB, f)
	if err != nil {
		return found, err
	}
	counts, err := s.countsFor(ctx, c, f)
	if err != nil {
		return found, err
	}
	list := runsFound{counts: counts, ids: ids}
	list.Partial = i.Partial
	if len(i.Tasks) == 0 && s.mediumOf(c) != asJSON {
		if list.unknown, err = s.noSuchID(ctx, q, f); err != nil {
			return found, err
		}
	}
	found.rows = incidentTable(i)
	found.json = func() any { return incidentJSON{v.nowMS, i} }
	found.page = func() templ.Component {
		page := s.runsPage(c, v, q, f, list)
		page.Grouped, page.Picks, page.Picking = true, false, templates.Picking{}
		page.Incident = s.incidentView(v, q, i)
		if list.unknown != nil {
			page.Incident.Empty = *list.unknown
		}
		return templates.RunsPage(page)
	}
	return found, nil
}

// countsFor counts the Runs of a filter by status, where the answer shows them.
func (s *server) countsFor(ctx context.Context, c echo.Context, f run.Filter) (map[run.Status]run.Count, error) {
	if m := s.mediumOf(c); m == asJSON || m == asCSV {
		return nil, nil
	}
	return run.CountByStatus(ctx, s.DB, f)
}

func (s *server) incidentView(v viewer, q url.Values, i run.Incident) templates.Incident {
	view := templates.Incident{Empty: templates.Empty{Why: text.Of("Nothing has failed."), What: text.Of("No Run of this filter has failed, timed out or been lost."),
		Link: templates.Link{Text: text.Of("Every Run"), URL: s.links.url(runsPath, without(q, "group"))}}}
	failures := 0
	for _, t := range i.Tasks {
		failures += t.Failures()
		view.Rows = append(view.Rows, s.troubleRow(v, q, t))
	}
	if failures > 0 {
		view.Sentences = []templates.Sentence{{Lead: text.Count(failures, "1 failure", "%s failures"), Rest: text.Count(len(i.Tasks), "of 1 Task.", "of %s Tasks."), Tone: "bad"}}
	}
	if i.More {
		view.More = text.Of("There are more: only the newest %s failures are looked at. Narrow the filter to see the rest.", run.IncidentCap)
	}
	return view
}

func (s *server) troubleRow(v viewer, q url.Values, t run.Trouble) templates.TroubleRow {
	narrowed := with(with(without(q, "group", "after", "before", "select"), "project", t.ProjectID), "task", t.TaskID)
	row := templates.TroubleRow{Key: t.ProjectID + "/" + t.TaskID, Project: t.ProjectID, Total: count(t.Failures(), false),
		Task:  templates.Link{Text: text.Data(shorten(visible(t.Newest.TaskName), listName)), URL: s.links.url(runsPath, narrowed)},
		First: s.failureOf(t.First, v.nowMS), Newest: s.failureOf(t.Newest, v.nowMS), Retried: answeredOf(t)}
	for _, x := range []struct {
		status run.Status
		n      int
	}{{run.Failed, t.Failed}, {run.TimedOut, t.TimedOut}, {run.Lost, t.Lost}} {
		if x.n > 0 {
			row.Counts = append(row.Counts, templates.Part{Status: runStatuses[x.status], Count: count(x.n, false)})
		}
	}
	if t.Failed+t.TimedOut > 0 && t.Retried < t.Failures() && s.Runs != nil && s.StepUp != nil && v.access.Decide(t.ProjectID, policy.RetryRun).Allowed {
		row.Retry = s.everyFailure(filters(narrowed), t.ProjectID, text.Of("Retry these…"))
	}
	return row
}

func (s *server) failureOf(f run.Failure, nowMS int64) templates.FailureOf {
	return templates.FailureOf{ID: shortID(f.RunID, s.links.run(f.RunID)), Status: runStatuses[f.Status], At: instant(f.CreatedAtMS, nowMS),
		Reason: runReason(run.Summary{ErrorCode: f.ErrorCode, ErrorSummary: f.ErrorSummary}).Map(brief)}
}

// views are the list of a filter, those of its failures that wait for a retry, its failures by Task, and what was done to
// many at once.
func (s *server) views(q url.Values) []templates.NavLink {
	plain, failed := without(q, "group", "retried", "after", "before", "select"), without(q, "group", "retried", "after", "before", "select")
	chosen, _ := anyOf("status", q.Get("status"), run.RunStatuses()) // it was read before
	failed.Set("status", spelled(both(chosen, run.Troubles())))
	list := []templates.NavLink{
		{Text: text.Of("Runs"), URL: s.links.url(runsPath, plain), Current: !aboutFailures(q)},
		{Text: text.Of("Failed, not retried yet"), URL: s.links.url(runsPath, with(failed, "retried", "no")), Current: q.Get("retried") != "" && q.Get("group") == ""},
		{Text: text.Of("Failures by Task"), URL: s.links.url(runsPath, with(failed, "group", "task")), Current: q.Get("group") != ""},
	}
	return append(list, templates.NavLink{Text: text.Of("Batches"), URL: s.links.url(batchesPath, url.Values{"project": q["project"]})})
}

var incidentColumns = []string{"project", "task", "task_name", "failed", "timed_out", "lost", "retried", "first_run", "first_at", "first_error", "newest_run", "newest_at", "newest_error"}

// incidentTable is an incident, Task by Task, for an export.
func incidentTable(i run.Incident) func(context.Context) iter.Seq2[[]string, error] {
	return func(context.Context) iter.Seq2[[]string, error] {
		read := func(*struct{}) ([]run.Trouble, *struct{}, error) { return i.Tasks, nil, whole(i.Partial, nil) }
		return export(incidentColumns, read, func(t run.Trouble) []string {
			cells := []string{t.ProjectID, t.TaskID, t.Newest.TaskName, strconv.Itoa(t.Failed), strconv.Itoa(t.TimedOut), strconv.Itoa(t.Lost), strconv.Itoa(t.Retried)}
			for _, f := range []run.Failure{t.First, t.Newest} {
				cells = append(cells, f.RunID.String(), cellTime(&f.CreatedAtMS), optional(f.ErrorCode))
			}
			return cells
		})
	}
}
