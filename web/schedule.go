package web

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	schedulePath = "/schedules/:project/:trigger"

	nextShown = 10
	runsShown = 10
)

var scheduleQuery = append([]string{resumedQuery}, accountQuery...)

// oneScheduleJSON is one Schedule for a client.
type oneScheduleJSON struct {
	scheduler.Detail
	timingJSON
	Next    []string      `json:"next"`    // RFC 3339, UTC
	Runs    []run.Summary `json:"runs"`    // the newest
	Account string        `json:"account"` // where its account is
}

func (s *server) schedule(c echo.Context) (reply, error) {
	return s.scheduleWith(c, correction{})
}

// scheduleWith shows a form of the page again, when there is something wrong with what was sent.
func (s *server) scheduleWith(c echo.Context, again correction) (reply, error) {
	q, err := query(c, scheduleQuery...)
	if err != nil {
		return reply{}, s.backToSchedule(c, err)
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	r, err := s.rangeAsked(c, q, v.nowMS)
	if err != nil {
		return reply{}, err
	}
	ctx := c.Request().Context()
	d, err := s.findSchedule(ctx, v, c.Param("project"), c.Param("trigger"))
	if err != nil {
		return reply{}, err
	}
	runs, err := run.List(ctx, s.DB, run.Filter{Projects: v.sees(d.ProjectID), TriggerID: d.TriggerID}, nil, runsShown)
	if err != nil {
		return reply{}, err
	}
	plan, _ := d.Plan() // an unreadable one is shown without its timing
	if d.TriggerID == c.Param("trigger") {
		c.Set(nameKey, true)
	}
	found := reply{status: r.wrong.status, json: func() any { return s.scheduleJSON(d, plan, runs.Runs, r) }}
	if s.wantsJSON(c) {
		return found, nil
	}
	var a templates.Account // no live part of the page, nor is what may be done
	var h templates.Holding
	if s.mediumOf(c) != asStream {
		if a, err = s.accountOf(c, v, d, plan, r); err != nil {
			return reply{}, err
		}
		if h, err = s.holding(c, v, d, plan, again); err != nil {
			return reply{}, err
		}
	}
	found.page = func() templ.Component {
		page := s.schedulePage(c, d, plan)
		page.Live = page.Live && r.wrong.status == 0
		page.Runs, page.Account, page.Holding = s.runRows(runs.Runs, d.NowMS), a, h
		return templates.SchedulePage(page)
	}
	return found, nil
}

func (s *server) scheduleJSON(d scheduler.Detail, plan scheduler.Plan, runs []run.Summary, r accountRange) oneScheduleJSON {
	body := oneScheduleJSON{Detail: d, timingJSON: timing(plan), Next: []string{}, Runs: nonNil(runs),
		Account: s.links.accountAs(".json", d.ProjectID, d.TriggerID, r.query)}
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
		Page: s.page(c, text.Data(d.TriggerID), "/schedules", d.NowMS), Name: d.TriggerID, Status: status, Project: d.ProjectID,
		Words: plan.Words, Cron: plan.Written, Zone: plan.Timezone, Sentences: scheduleSentences(d), Reason: whyIdle(d), Timing: explained(plan),
		Fence: fence(d), Pins: s.pins(d), Occurrences: occurrences(plan.After(d.NowMS, nextShown), plan.Location(), d.NowMS), Idle: idleWords(d.State),
		NoNext:  templates.Empty{Why: text.Of("No occurrence can be computed."), What: text.Of("The Trigger's content cannot be read. Publish it again.")},
		NoRuns:  templates.Empty{Why: text.Of("No Run of this Trigger yet."), What: firstRun(d.State)},
		AllRuns: s.links.runs("project", d.ProjectID, "trigger", d.TriggerID),
	}
	if d.State == scheduler.Paused {
		page.Pause = []templates.Pair{
			{Name: text.Of("Paused by"), Note: text.Data(visible(*d.PausedBy))}, {Name: text.Of("Since"), Instant: instant(*d.PausedMS, d.NowMS)},
			{Name: text.Of("Why"), Words: linked(*d.PauseReason)},
		}
	}
	if !page.Idle.Empty() {
		for i := range page.Occurrences {
			page.Occurrences[i].UTC.Relative = text.Text{} // nothing comes of it then, so nobody waits for it
		}
	}
	page.JSON = s.links.schedule(d.ProjectID, d.TriggerID) + ".json"
	page.Markdown = text.Of("**%s** %s, %s: %s", markdown(d.TriggerID), status.Word, plan.Words,
		s.publicURL(s.links.schedule(d.ProjectID, d.TriggerID)))
	return page
}

// idleWords say why nothing comes of the occurrences to come.
func idleWords(state scheduler.State) text.Text {
	switch state {
	case scheduler.Paused:
		return text.Of("Held back while paused: this is when it would fall due.")
	case scheduler.Disabled:
		return text.Of("Nothing is admitted while it is disabled: this is when it would fall due.")
	}
	return text.Text{}
}

// firstRun says when a Trigger without Runs has one.
func firstRun(state scheduler.State) text.Text {
	switch state {
	case scheduler.Paused:
		return text.Of("It is paused: the first one appears when an occurrence is admitted after somebody has resumed it.")
	case scheduler.Disabled:
		return text.Of("It is disabled: none appears until it is enabled.")
	}
	return text.Of("The first one appears when the next occurrence is admitted.")
}

func scheduleSentences(d scheduler.Detail) []templates.Sentence {
	switch d.State {
	case scheduler.Paused:
		return []templates.Sentence{{Lead: text.Of("Paused"), Rest: text.Of("by %s: nothing is admitted until somebody resumes it.", shorten(visible(*d.PausedBy), listName)), Tone: "warn"}}
	case scheduler.Disabled:
		return []templates.Sentence{{Lead: text.Of("Disabled:"), Rest: text.Of("no occurrence is admitted.")}}
	case scheduler.Blocked:
		return []templates.Sentence{{Lead: text.Of("Blocked:"), Rest: text.Of("its occurrences cannot be decided. It is tried again whenever its claim lapses."), Tone: "bad"}}
	case scheduler.Claimed:
		return []templates.Sentence{{Lead: text.Of("Being decided"), Rest: text.Of("right now.")}}
	case scheduler.Due:
		return []templates.Sentence{{Lead: text.Of("Due,"), Rest: text.Of("waiting for a replica to claim it.")}}
	}
	if d.NextMS == nil {
		return []templates.Sentence{{Lead: text.Of("New:"), Rest: text.Of("its first occurrence has not been looked for yet.")}}
	}
	next := templates.Sentence{Lead: text.Of("Next"), At: instant(*d.NextMS, d.NowMS), Rest: text.Of(".")}
	switch {
	case d.State == scheduler.NeverRun:
		next.Rest = text.Of(". It has not had an occurrence yet.")
	case d.LastRunStatus != nil:
		next.Rest = text.Of(". The Run of the last occurrence: %s.", runStatuses[*d.LastRunStatus].Word)
	}
	return []templates.Sentence{next}
}

// whyIdle says why nothing is admitted, whole.
func whyIdle(d scheduler.Detail) text.Text {
	switch {
	case d.BlockedReason != nil:
		return text.Data(visible(*d.BlockedReason))
	case d.State != scheduler.Disabled:
		return text.Text{}
	case d.Archived:
		return text.Of("The Project is archived.")
	case !d.TaskEnabled:
		return text.Of("The Task is disabled. Enable it in the manifest and publish.")
	}
	return text.Of("The Trigger is disabled. Enable it in the manifest and publish.")
}

// occurrences words instants to come on the Schedule's clock and in UTC. What a change of the clock does to one is said
// there, and that it has changed at the first one after it.
func occurrences(list []cron.Occurrence, loc *time.Location, nowMS int64) []templates.Occurrence {
	var rows []templates.Occurrence
	zone, before := time.UnixMilli(nowMS).In(loc).Zone()
	for _, o := range list {
		utc, at := instant(o.At.UnixMilli(), nowMS), o.At.In(loc)
		utc.Text = strings.TrimSuffix(utc.Text, " UTC") // the head of its column says so
		row := templates.Occurrence{Local: dated(at), UTC: utc, Mark: daylight[o.Mark]}
		name, offset := at.Zone()
		if offset != before && row.Mark.Empty() {
			row.Mark = text.Of("the clock has changed, from %s to %s", zone, name)
		}
		zone, before = name, offset
		rows = append(rows, row)
	}
	return rows
}

var cronFields = []text.Text{text.Of("second"), text.Of("minute"), text.Of("hour"), text.Of("day of month"), text.Of("month"), text.Of("day of week")}

// explained says what a Trigger's content says about time, part by part.
func explained(plan scheduler.Plan) templates.Timing {
	if plan.Words.Empty() {
		return templates.Timing{}
	}
	v := templates.Timing{Words: plan.Words, Zone: plan.Timezone, Misfire: misfireWords(plan.Misfire), Late: misfires[plan.Misfire]}
	columns := strings.Fields(plan.Written)
	for i, column := range columns {
		v.Fields = append(v.Fields, templates.CronField{Name: cronFields[len(cronFields)-len(columns)+i], Value: column})
	}
	switch {
	case plan.Location() == time.UTC:
	case plan.FixedTime():
		v.Clock = text.Of("When the clock goes forward, a time that it skips fires once, right after the gap. When it goes back, a time that comes twice fires once, the first time.")
	default:
		v.Clock = text.Of("It fires whenever the local time matches: on both passes of an hour that comes twice, and not in one that the clock skips.")
	}
	return v
}

// misfires say what becomes of an occurrence that is later than the grace.
var misfires = map[string]text.Text{
	catalog.MisfireSkip:     text.Of("An occurrence that is later than the grace, 5 min at most, is skipped, and that is recorded."),
	catalog.MisfireFireOnce: text.Of("An occurrence runs once however late it is; those that were missed after it are passed over, not replayed."),
}

// fence lists what a commit would compare, field by field.
func fence(d scheduler.Detail) []templates.Pair {
	claim := templates.Pair{Name: text.Of("Claim"), Note: text.Of("none held")}
	if d.ClaimToken != nil && d.ClaimOwner != nil && d.ClaimExpires != nil {
		claim.Mono, claim.Note = *d.ClaimToken+"…", holder(visible(*d.ClaimOwner), *d.ClaimExpires-d.NowMS)
	}
	cursor := templates.Pair{Name: text.Of("Cursor"), Instant: maybe(d.NextMS, d.NowMS)}
	if !idleWords(d.State).Empty() {
		cursor.Instant.Relative = text.Text{}
	}
	if d.NextMS == nil {
		cursor = templates.Pair{Name: cursor.Name, Note: text.Of("none yet; looked for after"), Tone: "soft", Instant: instant(d.BaseMS, d.NowMS)}
	}
	return []templates.Pair{
		{Name: text.Of("Trigger revision"), Note: text.Data(strconv.FormatInt(d.Revision, 10)), Mono: digest(d.TriggerDigest), Title: d.TriggerDigest},
		{Name: text.Of("Published"), Instant: instant(d.PublishedAtMS, d.NowMS)},
		cursor,
		{Name: text.Of("Last occurrence"), Instant: maybe(d.LastMS, d.NowMS), Note: unless(d.LastMS != nil, text.Of("none yet"))},
		{Name: text.Of("State version"), Note: text.Data(strconv.FormatInt(d.StateVersion, 10))},
		claim,
		{Name: text.Of("Claim version"), Note: text.Data(strconv.FormatInt(d.ClaimVersion, 10))},
		{Name: text.Of("Project version"), Note: text.Data(strconv.FormatInt(d.ProjectVersion, 10))},
		{Name: text.Of("Row written"), Instant: instant(d.UpdatedAtMS, d.NowMS)},
	}
}

func unless(known bool, otherwise text.Text) text.Text {
	if known {
		return text.Text{}
	}
	return otherwise
}

// holder says who holds a claim, and for how long yet.
func holder(owner string, leftMS int64) text.Text {
	if leftMS <= 0 {
		return text.Of("held by %s, expired %s", owner, relative(-leftMS))
	}
	return text.Of("held by %s, %s left", owner, duration(leftMS))
}

// misfireWords names a misfire policy; content that cannot be read has another, or none.
func misfireWords(policy string) text.Text {
	switch policy {
	case catalog.MisfireSkip:
		return text.Of("skip")
	case catalog.MisfireFireOnce:
		return text.Of("fire once")
	}
	return text.Data(visible(policy))
}

func (s *server) pins(d scheduler.Detail) []templates.Pair {
	pinned := templates.Pair{Name: text.Of("Pinned revision"), Note: text.Data(strconv.FormatInt(d.TaskRevision, 10)), Mono: digest(d.TaskDigest), Title: d.TaskDigest}
	execution := fmt.Sprintf("qltd:v1:%d:%s", d.TaskRevision, d.TaskDigest)
	list := []templates.Pair{
		{Name: text.Of("Task"), Link: templates.Link{Text: text.Data(visible(d.TaskName)), URL: s.links.runs("project", d.ProjectID, "task", d.TaskID)}, Mono: d.TaskID},
		pinned,
		{Name: text.Of("Execution"), Mono: shorten(execution, 20), Title: execution},
	}
	if d.TaskHead != d.TaskRevision {
		list = append(list, templates.Pair{Name: text.Of("Current revision"), Note: text.Of("%s, not the pinned one", strconv.FormatInt(d.TaskHead, 10)), Tone: "warn"})
	}
	return list
}
