package web

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const schedulesPath = "/schedules"

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
	NowMS     int64                         `json:"nowMs"`
	Counts    map[scheduler.State]run.Count `json:"counts"`
	Schedules []scheduleJSON                `json:"schedules"`
	// Partial tells that q names more Tasks than are looked for: Schedules that match are missing.
	Partial bool   `json:"partial,omitempty"`
	Next    string `json:"next,omitempty"`
}

// schedulesRead are the Schedules of one page as they were read for all who asked for it together.
type schedulesRead struct {
	scheduler.Page
	rows []templates.ScheduleRow
	kept *templates.Kept
}

// schedulesFound are the Schedules of one page, and how many there are in each state whatever state is asked for.
type schedulesFound struct {
	schedulesRead
	counts map[scheduler.State]run.Count
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
	filter, err := scheduleFilter(q, v)
	if err != nil {
		return reply{}, err
	}
	after, err := place("after", q, scheduler.ParseCursor)
	if err != nil {
		return reply{}, err
	}
	found := reply{rows: s.scheduleTable(filter)}
	if s.mediumOf(c) == asCSV {
		return found, nil
	}
	list := schedulesFound{}
	if list.schedulesRead, err = s.readSchedules(c.Request().Context(), filter, after); err != nil {
		return reply{}, err
	}
	if list.counts, err = s.countSchedules(c.Request().Context(), filter); err != nil {
		return reply{}, err
	}
	found.json = func() any { return s.schedulesJSON(v, q, list) }
	found.page = func() templ.Component { return templates.SchedulesPage(s.schedulesPage(c, v, q, list)) }
	return found, nil
}

func scheduleFilter(q url.Values, v viewer) (f scheduler.Filter, err error) {
	f = scheduler.Filter{Projects: v.sees(q.Get("project")), Text: q.Get("q")}
	f.State, err = oneOf("state", q.Get("state"), scheduler.States())
	return f, err
}

func (s *server) readSchedules(ctx context.Context, f scheduler.Filter, after *scheduler.Cursor) (schedulesRead, error) {
	return together(ctx, &s.gathering, "schedules", []any{f, after}, func(ctx context.Context) (read schedulesRead, err error) {
		if read.Page, err = scheduler.List(ctx, s.DB, f, after, pageSize); err != nil {
			return read, err
		}
		for _, x := range read.Schedules {
			read.rows = append(read.rows, s.scheduleRow(x, read.NowMS)) // which may be long after they asked
		}
		if len(read.rows) > 0 { // in the place of none stands what its reader asked for
			read.kept = new(templates.Kept)
		}
		return read, nil
	})
}

// countSchedules counts the Schedules of a filter by state, whichever it asks for.
func (s *server) countSchedules(ctx context.Context, f scheduler.Filter) (map[scheduler.State]run.Count, error) {
	f.State = ""
	return share(ctx, s.recent, "schedules", f, func(ctx context.Context) (map[scheduler.State]run.Count, error) {
		return scheduler.CountByState(ctx, s.DB, f)
	})
}

func (s *server) schedulesJSON(v viewer, q url.Values, list schedulesFound) schedulesJSON {
	body := schedulesJSON{NowMS: v.nowMS, Counts: list.counts, Schedules: []scheduleJSON{}, Partial: list.Partial, Next: onwards(s.links, schedulesPath+".json", q, "after", list.Next)}
	for _, x := range list.Schedules {
		plan, _ := x.Plan() // an unreadable one is listed without its timing
		body.Schedules = append(body.Schedules, scheduleJSON{x, timing(plan)})
	}
	return body
}

func (s *server) schedulesPage(c echo.Context, v viewer, q url.Values, list schedulesFound) templates.Schedules {
	page := templates.Schedules{
		Page: s.page(c, text.Of("Schedules"), schedulesPath, v.nowMS), Filters: s.filterForm(schedulesPath, q),
		Projects: projectOptions(v, q.Get("project")), State: visible(q.Get("state")), Text: visible(q.Get("q")),
		Chips: s.scheduleChips(q, list.counts), Pages: templates.Pages{Order: templates.NextFirst, On: onwards(s.links, schedulesPath, q, "after", list.Next)},
	}
	page.JSON, page.CSV = s.links.url(schedulesPath+".json", q), s.links.csv(schedulesPath, filters(q))
	page.Rows, page.Kept = list.rows, list.kept
	if q.Get("after") != "" {
		page.Pages.First = s.links.url(schedulesPath, without(q, "after"))
	}
	page.Empty, page.Filters.Partial = s.noSchedules(q, list), partial(list.Partial)
	return page
}

// scheduleChips are the states, of which one may be chosen. Choosing it again takes the choice back.
func (s *server) scheduleChips(q url.Values, counts map[scheduler.State]run.Count) []templates.Chip {
	chosen := scheduler.State(q.Get("state"))
	rest := without(q, "state", "after")
	chips := chipsOf(counts, scheduler.States())
	chips[0].URL, chips[0].Current = s.links.url(schedulesPath, rest), chosen == ""
	for i, state := range scheduler.States() {
		chip := &chips[i+1]
		chip.Status, chip.Current, chip.URL = scheduleStates[state], state == chosen, chips[0].URL
		if !chip.Current {
			chip.URL = s.links.url(schedulesPath, with(rest, "state", string(state)))
		}
	}
	return chips
}

func (s *server) noSchedules(q url.Values, list schedulesFound) templates.Empty {
	every := templates.Link{Text: text.Of("Every Schedule"), URL: s.links.url(schedulesPath, nil)}
	switch {
	case list.Next != nil:
		return templates.Empty{Why: text.Of("None of the Schedules looked at so far matches."), What: text.Of("There are more than are looked at in one go."),
			Link: templates.Link{Text: text.Of("Look further"), URL: onwards(s.links, schedulesPath, q, "after", list.Next)}}
	case len(filters(q)) > 0 || q.Get("after") != "":
		return templates.Empty{Why: text.Of("No Schedule matches."), What: text.Of("The filters leave none: widen them, or look at every Schedule."), Link: every}
	}
	return templates.Empty{Why: text.Of("No Trigger has been published."), What: text.Of("Give a Task a trigger in its manifest and publish it with console apply -f FILE.")}
}

func (s *server) scheduleRow(x scheduler.Summary, nowMS int64) templates.ScheduleRow {
	row := templates.ScheduleRow{
		Key: x.ProjectID + "/" + x.TriggerID, Name: templates.Link{Text: text.Data(x.TriggerID), URL: s.links.schedule(x.ProjectID, x.TriggerID)},
		Project: x.ProjectID, Status: scheduleStates[x.State], Task: x.TaskID, Last: maybe(x.LastMS, nowMS), Reason: scheduleReason(x),
	}
	switch x.State {
	case scheduler.Paused:
		row.Since = maybe(x.PausedMS, nowMS)
		row.Paused = pausedFor(x.PausedMS, nowMS)
	case scheduler.Claimed:
		row.Next, row.Left, row.LeftS = maybe(x.NextMS, nowMS), leftOf(x.ClaimExpires, nowMS), maybe(x.ClaimExpires, nowMS).Ago
	case scheduler.Disabled:
	default:
		row.Next = maybe(x.NextMS, nowMS)
	}
	plan, err := x.Plan()
	row.Words, row.Cron, row.Zone = plan.Words, plan.Written, plan.Timezone
	if err != nil {
		row.Words = text.Of("cannot be read")
	} else if row.Next.Machine != "" {
		row.Local, row.OnItsClock = onItsClock(x.NextMS, plan.Location())
	}
	if x.LastRunID != nil && x.LastRunStatus != nil {
		row.LastRun = templates.RunRow{ID: shortID(*x.LastRunID, s.links.run(*x.LastRunID)), Status: runStatuses[*x.LastRunStatus]}
	}
	return row
}

// onItsClock words a moment on the clock of a Schedule, beside which its reader's has the day: Sun 03:00 CET. In UTC it
// is no other than what stands there anyway.
func onItsClock(ms *int64, zone *time.Location) (short, whole text.Text) {
	if ms == nil || zone == time.UTC {
		return text.Text{}, text.Text{}
	}
	at := time.UnixMilli(*ms).In(zone)
	layout := "15:04 MST"
	if at.Second() != 0 {
		layout = clock
	}
	return text.Of("%s %s", weekdays[at.Weekday()], at.Format(layout)), dated(at)
}

// pausedFor words for how long a Schedule is paused.
func pausedFor(ms *int64, nowMS int64) text.Text {
	if ms == nil {
		return text.Text{}
	}
	return text.Of("for %s", coarse(max(nowMS-*ms, 0)))
}

// leftOf words how long it is until a moment, which may have passed since it was read.
func leftOf(ms *int64, nowMS int64) text.Text {
	if ms == nil {
		return text.Text{}
	}
	return text.Of("%s left", coarse(max(*ms-nowMS, 0)))
}

// scheduleReason says why a Schedule is in its state, as far as there is more to say than the state itself.
func scheduleReason(x scheduler.Summary) text.Text {
	switch {
	case x.State == scheduler.Paused && x.PausedBy != nil && x.PauseReason != nil:
		return text.Of("by %s: %s", shorten(visible(*x.PausedBy), 40), shorten(visible(*x.PauseReason), listText))
	case x.State == scheduler.Claimed && x.ClaimOwner != nil:
		return text.Of("held by %s", shorten(visible(*x.ClaimOwner), 40))
	case x.BlockedReason != nil:
		return text.Data(shorten(visible(*x.BlockedReason), listText))
	}
	return text.Text{}
}

var scheduleColumns = []string{"project", "trigger", "trigger_revision", "state", "blocked_reason", "task", "task_revision", "cron", "timezone", "misfire",
	"next", "last", "last_run", "last_run_status", "claim_owner", "claim_expires", "paused_by", "paused_at", "pause_reason"}

// scheduleTable is every Schedule that f lets through, for an export.
func (s *server) scheduleTable(f scheduler.Filter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(scheduleColumns, func(after *scheduler.Cursor) ([]scheduler.Summary, *scheduler.Cursor, error) {
			page, err := scheduler.List(ctx, s.DB, f, after, exportPage)
			return page.Schedules, page.Next, whole(page.Partial, err)
		}, func(x scheduler.Summary) []string {
			plan, _ := x.Plan() // an unreadable one is listed without its timing
			return []string{x.ProjectID, x.TriggerID, strconv.FormatInt(x.Revision, 10), string(x.State), optional(x.BlockedReason), x.TaskID,
				strconv.FormatInt(x.TaskRevision, 10), plan.Written, plan.Timezone, plan.Misfire, cellTime(x.NextMS), cellTime(x.LastMS), optional(x.LastRunID),
				optional(x.LastRunStatus), optional(x.ClaimOwner), cellTime(x.ClaimExpires), optional(x.PausedBy), cellTime(x.PausedMS), optional(x.PauseReason)}
		})
	}
}
