package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/web/templates"
)

const (
	nextShown = 10
	runsShown = 10
)

var scheduleQuery = []string{"account", "from", "to"}

// oneScheduleJSON is one Schedule for a client.
type oneScheduleJSON struct {
	scheduler.Detail
	timingJSON
	Next    []string      `json:"next"`    // RFC 3339, UTC
	Runs    []run.Summary `json:"runs"`    // the newest
	Account string        `json:"account"` // where its account is
}

func (s *server) schedule(c echo.Context) error {
	q, err := query(c, scheduleQuery...)
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	r, err := rangeOf(q, v.nowMS)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	d, err := s.findSchedule(ctx, v, c.Param("project"), c.Param("trigger"))
	if err != nil {
		return err
	}
	runs, err := run.List(ctx, s.DB, run.Filter{Projects: v.sees(d.ProjectID), TriggerID: d.TriggerID}, nil, runsShown)
	if err != nil {
		return err
	}
	plan, _ := d.Plan() // an unreadable one is shown without its timing
	if acceptsJSON(c) || d.TriggerID != c.Param("trigger") {
		return writeJSON(c, http.StatusOK, "application/json", s.scheduleJSON(d, plan, runs.Runs, r))
	}
	page := s.schedulePage(c, d, plan)
	page.Runs = s.runRows(runs.Runs, d.NowMS)
	if page.Account, err = s.accountOf(c, v, d, plan, r); err != nil {
		return err
	}
	return writeHTML(c, http.StatusOK, templates.SchedulePage(page))
}

func (s *server) scheduleJSON(d scheduler.Detail, plan scheduler.Plan, runs []run.Summary, r accountRange) oneScheduleJSON {
	body := oneScheduleJSON{Detail: d, timingJSON: timing(plan), Next: []string{}, Runs: nonNil(runs),
		Account: s.links.accountJSON(d.ProjectID, d.TriggerID, r.query)}
	for _, o := range plan.After(d.NowMS, nextShown) {
		body.Next = append(body.Next, o.At.UTC().Format(time.RFC3339))
	}
	return body
}

// findSchedule reads a Schedule by its address. A Trigger's own name may end in ".json", and comes first.
func (s *server) findSchedule(ctx context.Context, v viewer, project, trigger string) (scheduler.Detail, error) {
	d, err := scheduler.Get(ctx, s.DB, v.sees(""), project, trigger)
	if plain, ok := strings.CutSuffix(trigger, ".json"); ok && errors.Is(err, scheduler.ErrNotFound) {
		return scheduler.Get(ctx, s.DB, v.sees(""), project, plain)
	}
	return d, err
}

func (s *server) schedulePage(c echo.Context, d scheduler.Detail, plan scheduler.Plan) templates.Schedule {
	status := scheduleStates[d.State]
	page := templates.Schedule{
		Page: s.page(c, d.TriggerID, "Schedules", d.NowMS), Name: d.TriggerID, Status: status, Project: d.ProjectID,
		Words: plan.Words, Cron: plan.Written, Zone: plan.Timezone, Sentences: scheduleSentences(d), Reason: whyIdle(d),
		Fence: fence(d, plan), Pins: s.pins(d), Occurrences: occurrences(plan.After(d.NowMS, nextShown), plan.Location(), d.NowMS),
		NoNext:  templates.Empty{Why: "No occurrence can be computed.", What: "The Trigger's content cannot be read. Publish it again."},
		NoRuns:  templates.Empty{Why: "No Run of this Trigger yet.", What: "The first one appears when the next occurrence is admitted."},
		AllRuns: s.links.runs("project", d.ProjectID, "trigger", d.TriggerID),
	}
	page.JSON = s.links.schedule(d.ProjectID, d.TriggerID) + ".json"
	page.Markdown = fmt.Sprintf("**%s** %s, %s: %s", markdown(d.TriggerID), status.Word, markdown(plan.Words),
		s.publicURL(s.links.schedule(d.ProjectID, d.TriggerID)))
	return page
}

func scheduleSentences(d scheduler.Detail) []templates.Sentence {
	switch d.State {
	case scheduler.Paused:
		return []templates.Sentence{{Lead: "Paused", Rest: "by " + visible(*d.PausedBy) + " " + relative(d.NowMS-*d.PausedMS) + ": " + visible(*d.PauseReason), Tone: "warn"}}
	case scheduler.Disabled:
		return []templates.Sentence{{Lead: "Disabled:", Rest: "no occurrence is admitted."}}
	case scheduler.Blocked:
		return []templates.Sentence{{Lead: "Blocked:", Rest: "its occurrences cannot be decided. It is tried again whenever its claim lapses.", Tone: "bad"}}
	case scheduler.Claimed:
		return []templates.Sentence{{Lead: "Being decided", Rest: "right now."}}
	case scheduler.Due:
		return []templates.Sentence{{Lead: "Due,", Rest: "waiting for a replica to claim it."}}
	}
	if d.NextMS == nil {
		return nil
	}
	next := templates.Sentence{Lead: "Next " + relative(d.NowMS-*d.NextMS) + "."}
	if d.State == scheduler.NeverRun {
		next.Rest = "It has not had an occurrence yet."
	}
	return []templates.Sentence{next}
}

// whyIdle says why nothing is admitted, whole.
func whyIdle(d scheduler.Detail) string {
	switch {
	case d.BlockedReason != nil:
		return visible(*d.BlockedReason)
	case d.State != scheduler.Disabled:
		return ""
	case d.Archived:
		return "The Project is archived."
	case !d.TaskEnabled:
		return "The Task is disabled. Enable it in the manifest and publish."
	}
	return "The Trigger is disabled. Enable it in the manifest and publish."
}

// occurrences words instants to come on the Schedule's clock and in UTC.
func occurrences(list []cron.Occurrence, loc *time.Location, nowMS int64) []templates.Occurrence {
	var rows []templates.Occurrence
	for _, o := range list {
		utc := instant(o.At.UnixMilli(), nowMS)
		utc.Text = o.At.UTC().Format("Mon 2 Jan 2006 15:04:05")
		rows = append(rows, templates.Occurrence{Local: o.At.In(loc).Format("Mon 2 Jan 2006 15:04:05 MST"), UTC: utc, Mark: daylight[o.Mark]})
	}
	return rows
}

// fence lists what a commit would compare, field by field.
func fence(d scheduler.Detail, plan scheduler.Plan) []templates.Pair {
	claim := templates.Pair{Name: "Claim", Note: "none held"}
	if d.ClaimToken != nil && d.ClaimOwner != nil && d.ClaimExpires != nil {
		claim = templates.Pair{Name: "Claim", Mono: *d.ClaimToken + "…", Note: "by " + visible(*d.ClaimOwner) + expiry(*d.ClaimExpires-d.NowMS)}
	}
	cursor := templates.Pair{Name: "Cursor", Instant: maybe(d.NextMS, d.NowMS)}
	if d.NextMS == nil {
		cursor = templates.Pair{Name: "Cursor", Note: "none yet; looked for after", Tone: "soft", Instant: instant(d.BaseMS, d.NowMS)}
	}
	return []templates.Pair{
		{Name: "Trigger revision", Note: strconv.FormatInt(d.Revision, 10), Mono: digest(d.TriggerDigest), Title: d.TriggerDigest},
		{Name: "Published", Instant: instant(d.PublishedAtMS, d.NowMS)},
		cursor,
		{Name: "Last occurrence", Instant: maybe(d.LastMS, d.NowMS), Note: unless(d.LastMS != nil, "none yet")},
		{Name: "State version", Note: strconv.FormatInt(d.StateVersion, 10)},
		claim,
		{Name: "Claim version", Note: strconv.FormatInt(d.ClaimVersion, 10)},
		{Name: "Misfire", Note: strings.ReplaceAll(plan.Misfire, "_", " ")},
		{Name: "Project version", Note: strconv.FormatInt(d.ProjectVersion, 10)},
		{Name: "Row written", Instant: instant(d.UpdatedAtMS, d.NowMS)},
	}
}

func unless(known bool, text string) string {
	if known {
		return ""
	}
	return text
}

func expiry(leftMS int64) string {
	if leftMS <= 0 {
		return ", expired " + relative(-leftMS)
	}
	return ", " + duration(leftMS) + " left"
}

func (s *server) pins(d scheduler.Detail) []templates.Pair {
	pinned := templates.Pair{Name: "Pinned revision", Note: strconv.FormatInt(d.TaskRevision, 10), Mono: digest(d.TaskDigest), Title: d.TaskDigest}
	execution := fmt.Sprintf("qltd:v1:%d:%s", d.TaskRevision, d.TaskDigest)
	list := []templates.Pair{
		{Name: "Task", Link: templates.Link{Text: visible(d.TaskName), URL: s.links.runs("project", d.ProjectID, "task", d.TaskID)}, Mono: d.TaskID},
		pinned,
		{Name: "Execution", Mono: shorten(execution, 20), Title: execution},
	}
	if d.TaskHead != d.TaskRevision {
		list = append(list, templates.Pair{Name: "Current revision", Note: strconv.FormatInt(d.TaskHead, 10) + ", not the pinned one", Tone: "warn"})
	}
	return list
}
