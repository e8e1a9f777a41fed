package web

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

var schedulesQuery = []string{"project", "state", "q", "after"}

// scheduleJSON is a Schedule for a client: with what its content says about time, unless it cannot be read.
type scheduleJSON struct {
	scheduler.Summary
	timingJSON
}

type timingJSON struct {
	Cron     string `json:"cron"`
	Timezone string `json:"timezone"`
	Misfire  string `json:"misfire"`
	Words    string `json:"words"`
}

func timing(p scheduler.Plan) timingJSON {
	return timingJSON{Cron: p.Written, Timezone: p.Timezone, Misfire: p.Misfire, Words: p.Words.String()}
}

// schedulesJSON is a list of Schedules. Next is the address of the following part, empty at the end.
type schedulesJSON struct {
	NowMS     int64          `json:"nowMs"`
	Schedules []scheduleJSON `json:"schedules"`
	Next      string         `json:"next,omitempty"`
}

func (s *server) schedules(c echo.Context) (reply, error) {
	q, err := query(c, schedulesQuery...)
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	filter, after, err := scheduleFilter(q, v)
	if err != nil {
		return reply{}, err
	}
	list, err := scheduler.List(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return reply{}, err
	}
	later, next := "", ""
	if list.Next != nil {
		later = s.links.url("/schedules", with(q, "after", list.Next.String()))
		next = s.links.url("/schedules.json", with(q, "after", list.Next.String()))
	}
	body := func() any {
		body := schedulesJSON{NowMS: v.nowMS, Schedules: []scheduleJSON{}, Next: next}
		for _, x := range list.Schedules {
			plan, _ := x.Plan() // an unreadable one is listed without its timing
			body.Schedules = append(body.Schedules, scheduleJSON{x, timing(plan)})
		}
		return body
	}
	return reply{json: body, rows: s.scheduleTable(filter), page: func() templ.Component {
		return templates.SchedulesPage(s.schedulesPage(c, v, q, list.Schedules, later))
	}}, nil
}

func scheduleFilter(q url.Values, v viewer) (scheduler.Filter, *scheduler.Cursor, error) {
	f := scheduler.Filter{Projects: v.sees(q.Get("project")), Text: q.Get("q")}
	var err error
	if f.State, err = oneOf("state", q.Get("state"), scheduler.States()); err != nil {
		return f, nil, err
	}
	if q.Get("after") == "" {
		return f, nil, nil
	}
	after, err := scheduler.ParseCursor(q.Get("after"))
	if err != nil {
		return f, nil, badQuery(text.Of("The parameter after is not a place in the list. Take it from a page's own link."))
	}
	return f, &after, nil
}

func (s *server) schedulesPage(c echo.Context, v viewer, q url.Values, list []scheduler.Summary, later string) templates.Schedules {
	page := templates.Schedules{
		Page: s.page(c, text.Of("Schedules"), "/schedules", v.nowMS), Action: s.links.url("/schedules", nil),
		Projects: projectOptions(v, q.Get("project")), States: []templates.Option{{Text: text.Of("any")}},
		Text: visible(q.Get("q")), Filtered: len(filters(q)) > 0, Later: later,
	}
	page.JSON = s.links.url("/schedules.json", q)
	for _, state := range scheduler.States() {
		page.States = append(page.States, option(string(state), scheduleStates[state].Word, q.Get("state")))
	}
	for _, x := range list {
		page.Rows = append(page.Rows, s.scheduleRow(x, v.nowMS))
	}
	if q.Get("after") != "" {
		page.First = s.links.url("/schedules", with(q, "after", ""))
	}
	page.Empty = s.noSchedules(page.Filtered || page.First != "")
	return page
}

func (s *server) noSchedules(filtered bool) templates.Empty {
	if filtered {
		return templates.Empty{Why: text.Of("No Schedule matches."), What: text.Of("The filters leave none: widen them, or look at every Schedule."),
			Link: templates.Link{Text: text.Of("Every Schedule"), URL: s.links.url("/schedules", nil)}}
	}
	return templates.Empty{Why: text.Of("No Trigger has been published."), What: text.Of("Give a Task a trigger in its manifest and publish it with console apply -f FILE.")}
}

func (s *server) scheduleRow(x scheduler.Summary, nowMS int64) templates.ScheduleRow {
	row := templates.ScheduleRow{
		Name:    templates.Link{Text: text.Data(x.TriggerID), URL: s.links.schedule(x.ProjectID, x.TriggerID)},
		Project: x.ProjectID, Status: scheduleStates[x.State], Task: x.TaskID, Last: maybe(x.LastMS, nowMS), Claim: claimWords(x, nowMS),
	}
	if x.State != scheduler.Disabled && x.State != scheduler.Paused {
		row.Next = maybe(x.NextMS, nowMS)
	}
	if x.BlockedReason != nil {
		row.Reason = text.Data(shorten(visible(*x.BlockedReason), listText))
	}
	plan, err := x.Plan()
	row.Words, row.Cron, row.Zone = plan.Words, plan.Written, plan.Timezone
	if err != nil {
		row.Words = text.Of("cannot be read")
	}
	if x.LastRunID != nil && x.LastRunStatus != nil {
		row.LastRun = templates.RunRow{ID: shortID(*x.LastRunID, s.links.run(*x.LastRunID)), Status: runStatuses[*x.LastRunStatus]}
	}
	return row
}

// claimWords says who holds a Schedule that is being decided, and for how long yet.
func claimWords(x scheduler.Summary, nowMS int64) text.Text {
	if x.State != scheduler.Claimed || x.ClaimOwner == nil || x.ClaimExpires == nil {
		return text.Text{}
	}
	return text.Of("held by %s, %s left", shorten(visible(*x.ClaimOwner), 40), duration(max(*x.ClaimExpires-nowMS, 0)))
}

var scheduleColumns = []string{"project", "trigger", "trigger_revision", "state", "blocked_reason", "task", "task_revision", "cron", "timezone", "misfire",
	"next", "last", "last_run", "last_run_status", "claim_owner", "claim_expires"}

// scheduleTable is every Schedule that f lets through, for an export.
func (s *server) scheduleTable(f scheduler.Filter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(scheduleColumns, func(after *scheduler.Cursor) ([]scheduler.Summary, *scheduler.Cursor, error) {
			page, err := scheduler.List(ctx, s.DB, f, after, exportPage)
			return page.Schedules, page.Next, err
		}, func(x scheduler.Summary) []string {
			plan, _ := x.Plan() // an unreadable one is listed without its timing
			return []string{x.ProjectID, x.TriggerID, strconv.FormatInt(x.Revision, 10), string(x.State), optional(x.BlockedReason), x.TaskID,
				strconv.FormatInt(x.TaskRevision, 10), plan.Written, plan.Timezone, plan.Misfire, cellTime(x.NextMS), cellTime(x.LastMS), optional(x.LastRunID),
				optional(x.LastRunStatus), optional(x.ClaimOwner), cellTime(x.ClaimExpires)}
		})
	}
}
