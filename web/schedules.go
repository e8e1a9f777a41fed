package web

import (
	"net/url"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/scheduler"
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
	return timingJSON{Cron: p.Written, Timezone: p.Timezone, Misfire: p.Misfire, Words: p.Words}
}

// schedulesJSON is a list of Schedules. Next is the address of the following part, empty at the end.
type schedulesJSON struct {
	NowMS     int64          `json:"nowMs"`
	Schedules []scheduleJSON `json:"schedules"`
	Next      string         `json:"next,omitempty"`
}

func (s *server) schedules(c echo.Context) error {
	q, err := query(c, schedulesQuery...)
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	filter, after, err := scheduleFilter(q, v)
	if err != nil {
		return err
	}
	list, err := scheduler.List(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return err
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
	return answer(c, body, func() templ.Component {
		return templates.SchedulesPage(s.schedulesPage(c, v, q, list.Schedules, later))
	})
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
		return f, nil, badQuery("The parameter after is not a place in the list. Take it from a page's own link.")
	}
	return f, &after, nil
}

func (s *server) schedulesPage(c echo.Context, v viewer, q url.Values, list []scheduler.Summary, later string) templates.Schedules {
	page := templates.Schedules{
		Page: s.page(c, "Schedules", "Schedules", v.nowMS), Action: s.links.url("/schedules", nil),
		Projects: projectOptions(v, q.Get("project")), States: []templates.Option{{Text: "any"}},
		Text: visible(q.Get("q")), Filtered: len(nonEmpty(with(q, "after", ""))) > 0, Later: later,
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
		return templates.Empty{Why: "No Schedule matches.", What: "The filters leave none: widen them, or look at every Schedule.",
			Link: templates.Link{Text: "Every Schedule", URL: s.links.url("/schedules", nil)}}
	}
	return templates.Empty{Why: "No Trigger has been published.", What: "Give a Task a trigger in its manifest and publish it with console apply -f FILE."}
}

func (s *server) scheduleRow(x scheduler.Summary, nowMS int64) templates.ScheduleRow {
	row := templates.ScheduleRow{
		Name:    templates.Link{Text: x.TriggerID, URL: s.links.schedule(x.ProjectID, x.TriggerID)},
		Project: x.ProjectID, Status: scheduleStates[x.State], Task: x.TaskID, Last: maybe(x.LastMS, nowMS), Claim: claimWords(x, nowMS),
	}
	if x.State != scheduler.Disabled && x.State != scheduler.Paused {
		row.Next = maybe(x.NextMS, nowMS)
	}
	if x.BlockedReason != nil {
		row.Reason = shorten(visible(*x.BlockedReason), listText)
	}
	plan, err := x.Plan()
	row.Words, row.Cron, row.Zone = plan.Words, plan.Written, plan.Timezone
	if err != nil {
		row.Words = "cannot be read"
	}
	if x.LastRunID != nil && x.LastRunStatus != nil {
		row.LastRun = templates.RunRow{ID: shortID(*x.LastRunID, s.links.run(*x.LastRunID)), Status: runStatuses[*x.LastRunStatus]}
	}
	return row
}

// claimWords says who holds a Schedule that is being decided, and for how long yet.
func claimWords(x scheduler.Summary, nowMS int64) string {
	if x.State != scheduler.Claimed || x.ClaimOwner == nil || x.ClaimExpires == nil {
		return ""
	}
	return "by " + shorten(visible(*x.ClaimOwner), 40) + ", " + duration(max(*x.ClaimExpires-nowMS, 0)) + " left"
}
