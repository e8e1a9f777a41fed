package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/web/templates"
)

// What a submission that led to a Run came to.
var runQuery = []string{"retry", "stop"}

func (s *server) run(c echo.Context) error {
	if _, err := query(c, runQuery...); err != nil {
		return err
	}
	id, err := wholeID(strings.TrimSuffix(c.Param("id"), ".json"))
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	d, err := run.Get(c.Request().Context(), s.DB, v.sees(""), id)
	if err != nil {
		return err
	}
	f := runFacts{Detail: d}
	if f.Family, err = run.Family(c.Request().Context(), s.DB, v.sees(""), id); err != nil {
		return err
	}
	if f.audit, err = s.auditOf(c, v, d); err != nil {
		return err
	}
	return answer(c, func() any { return f }, func() templ.Component { return templates.RunPage(s.runPage(c, v, f)) })
}

// runFacts is a Run with what stands around it.
type runFacts struct {
	run.Detail
	Family []run.Member `json:"family"` // the retry family, the Run that everything is a retry of first
	audit  []policy.AuditRecord
}

func (s *server) runPage(c echo.Context, v viewer, f runFacts) templates.Run {
	d := f.Detail
	status := runStatuses[d.Status]
	page := templates.Run{
		Page: s.page(c, visible(d.TaskName)+" · Run", "Runs", v.nowMS), Name: visible(d.TaskName), ID: d.ID.String(), Status: status,
		Sentences: runSentences(d, v.nowMS), Origin: s.runOrigin(d, v.nowMS), Times: runTimes(d, v.nowMS),
		Attempts: attempts(d.Attempts, v.nowMS), Events: events(d.Events, v.nowMS),
	}
	page.JSON, page.Done, page.Deeds = s.links.run(d.ID)+".json", done(c, d), s.deeds(v, d)
	if len(f.Family) > 1 {
		page.Family = s.family(f.Family, d.ID, v.nowMS)
	}
	page.Audit = s.auditRows(f.audit, v.nowMS)
	if d.ErrorSummary != nil {
		page.Summary = visible(*d.ErrorSummary)
	}
	if d.Attention != nil {
		page.Attention, page.Advice = visible(*d.Attention)+".", advice(d)
	}
	if d.RunbookURL != "" {
		page.Links = append(page.Links, templates.Link{Text: "Runbook", URL: d.RunbookURL})
	}
	if d.LogsURL != "" {
		page.Links = append(page.Links, templates.Link{Text: "Logs of this Attempt", URL: d.LogsURL})
	}
	if !d.EventsAreAll {
		page.More = fmt.Sprintf("Only the first %d Events are shown.", len(d.Events))
	}
	page.Markdown = fmt.Sprintf("**%s** %s%s: %s", markdown(d.TaskName), status.Word, markdown(because(d.Summary)), s.publicURL(s.links.run(d.ID)))
	return page
}

func because(r run.Summary) string {
	if reason := runReason(r); reason != "" {
		return " (" + shorten(reason, listText) + ")"
	}
	return ""
}

// runSentences say in a line what a reader came for: how it stands, and why.
func runSentences(d run.Detail, nowMS int64) []templates.Sentence {
	var say templates.Sentence
	switch how := took(d.StartedAtMS, d.FinishedAtMS, nowMS); {
	case d.Status == run.Queued:
		say = templates.Sentence{Lead: "Waiting for a worker", Rest: "since " + duration(max(nowMS-d.CreatedAtMS, 0)) + "."}
	case d.Status == run.Dispatching:
		say = templates.Sentence{Lead: "Handed to a worker,", Rest: "which has not started it yet."}
	case d.Status == run.Running:
		say = templates.Sentence{Lead: "Running", Rest: "for " + strings.TrimSuffix(how, " so far") + ".", Tone: "run"}
	case d.Status == run.Lost:
		say = templates.Sentence{Lead: "Its outcome is unknown.", Rest: "The worker that had it has not been heard of; the command may still run.", Tone: "warn"}
	case d.Status == run.Succeeded:
		say = templates.Sentence{Lead: "Succeeded", Rest: "after " + how + ".", Tone: "ok"}
	case d.Status.Terminal():
		say = ended(d, how)
	default:
		say = templates.Sentence{Lead: "Not yet queued."}
	}
	if d.CancelRequestedAtMS != nil && !d.Status.Terminal() {
		return []templates.Sentence{say, {Lead: "Stopping", Rest: "was asked for.", Tone: "warn"}}
	}
	return []templates.Sentence{say}
}

// advice says what a lost Run means and what to do about it.
func advice(d run.Detail) []string {
	if d.Status != run.Lost {
		return nil
	}
	worker := "its worker"
	if n := len(d.Attempts); n > 0 && d.Attempts[n-1].Worker != nil {
		worker = "its worker, " + visible(*d.Attempts[n-1].Worker)
	}
	return []string{
		"Lost is no failure: the lease of its worker lapsed, so nobody here may move it any further, and it ends only if that worker reports after all.",
		"Look at " + worker + ": does the command still run, and what has it done? The logs of the Attempt may say.",
		"It cannot be retried, because running it beside itself may do harm. Later occurrences of its Trigger run as usual.",
	}
}

// ended says how a Run that did not succeed did end.
func ended(d run.Detail, how string) templates.Sentence {
	lead := runStatuses[d.Status].Word
	switch {
	case d.ExitCode != nil:
		lead = fmt.Sprintf("Exit %d", *d.ExitCode)
	case d.ErrorCode != nil:
		lead = strings.ReplaceAll(*d.ErrorCode, "_", " ")
	}
	say := templates.Sentence{Lead: capital(lead), Rest: "before it had started.", Tone: runStatuses[d.Status].Tone}
	if how != "" {
		say.Rest = "after " + how + "."
	}
	return say
}

func (s *server) runOrigin(d run.Detail, nowMS int64) []templates.Pair {
	var list []templates.Pair
	if d.ScheduledForMS != nil {
		late, _ := d.Late()
		list = append(list,
			templates.Pair{Name: "Occurrence", Instant: instant(*d.ScheduledForMS, nowMS), Note: inZone(*d.ScheduledForMS, d.Timezone), Tone: "soft"},
			templates.Pair{Name: "Admitted", Note: duration(late) + " late"},
			templates.Pair{Name: "Trigger", Link: templates.Link{Text: *d.TriggerID, URL: s.links.schedule(d.ProjectID, *d.TriggerID)},
				Note: fmt.Sprintf("revision %d", *d.TriggerRevision), Mono: digest(*d.TriggerDigest), Title: *d.TriggerDigest})
	}
	if d.RetryOf != nil {
		list = append(list, templates.Pair{Name: "Retry of", Link: templates.Link{Text: d.RetryOf.String(), URL: s.links.run(*d.RetryOf)}})
	}
	return append(list,
		templates.Pair{Name: "Task", Link: templates.Link{Text: d.TaskID, URL: s.links.runs("project", d.ProjectID, "task", d.TaskID)},
			Note: fmt.Sprintf("revision %d", d.TaskRevision), Mono: digest(d.TaskDigest), Title: d.TaskDigest},
		templates.Pair{Name: "Project", Link: templates.Link{Text: d.ProjectID, URL: s.links.runs("project", d.ProjectID)}},
		templates.Pair{Name: "Version", Note: strconv.FormatInt(d.Version, 10)})
}

// inZone words an instant on the Trigger's own clock.
func inZone(ms int64, zone *string) string {
	if zone == nil || *zone == "UTC" { // said already
		return ""
	}
	loc, err := time.LoadLocation(*zone)
	if err != nil {
		return ""
	}
	return time.UnixMilli(ms).In(loc).Format("· Mon 15:04:05 ") + *zone
}

func runTimes(d run.Detail, nowMS int64) []templates.Pair {
	all := []templates.Pair{
		{Name: "Created", Instant: instant(d.CreatedAtMS, nowMS)},
		{Name: "Queued", Instant: maybe(d.QueuedAtMS, nowMS)},
		{Name: "Started", Instant: maybe(d.StartedAtMS, nowMS)},
		{Name: "Stop asked for", Instant: maybe(d.CancelRequestedAtMS, nowMS)},
		{Name: "Finished", Instant: maybe(d.FinishedAtMS, nowMS)},
	}
	var known []templates.Pair
	for _, p := range all {
		if p.Instant.Machine != "" {
			known = append(known, p)
		}
	}
	return known
}

func attempts(list []run.AttemptDetail, nowMS int64) []templates.Attempt {
	var rows []templates.Attempt
	for _, a := range list {
		row := templates.Attempt{
			Number: strconv.Itoa(a.Attempt), Status: runStatuses[a.Status], Worker: "none yet", Started: maybe(a.StartedAtMS, nowMS),
			Duration: took(a.StartedAtMS, a.FinishedAtMS, nowMS),
			Reason:   runReason(run.Summary{ErrorCode: a.ErrorCode, ErrorSummary: a.ErrorSummary}),
		}
		if a.Worker != nil {
			row.Worker = visible(*a.Worker)
		}
		if a.ExitCode != nil {
			row.Exit = strconv.Itoa(*a.ExitCode)
		}
		rows = append(rows, row)
	}
	return rows
}

func events(list []run.Event, nowMS int64) []templates.Event {
	var rows []templates.Event
	for _, e := range list {
		rows = append(rows, templates.Event{
			Sequence: strconv.FormatInt(e.Sequence, 10), Type: e.Type, At: instant(e.CreatedAtMS, nowMS),
			Offset: "+" + duration(e.CreatedAtMS-list[0].CreatedAtMS), Actor: e.ActorType + " " + visible(e.ActorID), Payload: facts(e.Payload),
		})
	}
	return rows
}

// facts lays out an Event's payload; one without facts is empty.
func facts(payload json.RawMessage) string {
	var buf bytes.Buffer
	if err := json.Indent(&buf, payload, "", "  "); err != nil || buf.String() == "{}" {
		return ""
	}
	lines := strings.Split(buf.String(), "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return strings.Join(lines, "\n")
}
