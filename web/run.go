package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// rowsSeen is how many Attempts or Events are seen without unfolding any.
const rowsSeen = 24

// What a submission that led to a Run came to.
var runQuery = []string{"retry", "stop"}

func (s *server) run(c echo.Context) (reply, error) {
	if _, err := query(c, runQuery...); err != nil {
		return reply{}, err
	}
	id, err := wholeID(strings.TrimSuffix(c.Param("id"), ".json"))
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	d, err := run.Get(c.Request().Context(), s.DB, v.sees(""), id)
	if err != nil {
		return reply{}, err
	}
	f := runFacts{Detail: d}
	if f.Family, err = run.Family(c.Request().Context(), s.DB, v.sees(""), id); err != nil {
		return reply{}, err
	}
	if f.audit, err = s.auditOf(c, v, d); err != nil {
		return reply{}, err
	}
	if f.Pause, err = s.pauseOf(c, f); err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return f }, page: func() templ.Component { return templates.RunPage(s.runPage(c, v, f)) }}, nil
}

// runFacts is a Run with what stands around it.
type runFacts struct {
	run.Detail
	Family []run.Member   `json:"family"`       // the retry family, the Run that everything is a retry of first
	Pause  *catalog.Pause `json:"triggerPause"` // what holds its Trigger back now, or that of the Run that it is a retry of in the end
	audit  []policy.AuditRecord
}

func (s *server) runPage(c echo.Context, v viewer, f runFacts) templates.Run {
	d := f.Detail
	page := templates.Run{
		Page: s.page(c, text.Of("%s · Run", shorten(visible(d.TaskName), listName)), "/runs", v.nowMS), Name: shorten(visible(d.TaskName), headName), ID: d.ID.String(), Status: runStatuses[d.Status],
		Sentences: runSentences(d, v.nowMS), Origin: s.runOrigin(f, v.nowMS), Times: runTimes(d, v.nowMS),
		Attempts: foldMiddle(attempts(d.Attempts, v.nowMS)), Events: foldMiddle(events(d.Events, v.nowMS)),
	}
	if whole := visible(d.TaskName); whole != page.Name {
		page.Whole = whole
	}
	page.JSON, page.Done, page.Deeds = s.links.run(d.ID)+".json", done(c, d), s.deeds(v, d)
	page.Timeline, page.Family, page.Ended = timeline(d, v.nowMS), s.family(f.Family, d.ID, v.nowMS), d.Status.Terminal()
	page.Address, page.Held, page.Author = s.publicURL(s.links.run(d.ID)), s.heldBack(f, v.nowMS), authorOf(d)
	page.Audit = s.auditRows(f.audit, v.nowMS)
	if d.ErrorSummary != nil {
		page.Summary = visible(*d.ErrorSummary)
	}
	if d.Attention != nil {
		page.Attention, page.Advice = text.Of("%s.", run.Need(*d.Attention).Map(visible)), advice(d)
	}
	if d.RunbookURL != "" {
		page.Links = append(page.Links, templates.Link{Text: text.Of("Runbook"), URL: d.RunbookURL})
	}
	if d.LogsURL != "" {
		page.Links = append(page.Links, templates.Link{Text: text.Of("Logs of this Attempt"), URL: d.LogsURL})
	}
	if !d.EventsAreAll {
		page.More = text.Of("Only the first %s Events are shown.", len(d.Events))
	}
	page.Markdown = runMarkdown(d.Summary, s.publicURL(s.links.run(d.ID)))
	return page
}

// runMarkdown is a Run in a line for a chat.
func runMarkdown(r run.Summary, address string) text.Text {
	name, word := markdown(shorten(r.TaskName, headName)), runStatuses[r.Status].Word
	if reason := runReason(r); !reason.Empty() {
		return text.Of("**%s** %s (%s): %s", name, word, reason.Map(brief).Map(markdown), address)
	}
	return text.Of("**%s** %s: %s", name, word, address)
}

// runSentences say in a line what a reader came for: how it stands, and why.
func runSentences(d run.Detail, nowMS int64) []templates.Sentence {
	var say templates.Sentence
	switch how := took(d.StartedAtMS, d.FinishedAtMS, nowMS); {
	case d.Status == run.Queued:
		say = templates.Sentence{Lead: text.Of("Waiting for a worker"), Rest: text.Of("since %s.", duration(max(nowMS-d.CreatedAtMS, 0)))}
	case d.Status == run.Dispatching:
		say = templates.Sentence{Lead: text.Of("Handed to a worker,"), Rest: text.Of("which has not started it yet.")}
	case d.Status == run.Running:
		say = templates.Sentence{Lead: text.Of("Running"), Rest: text.Of("for %s.", took(d.StartedAtMS, &nowMS, nowMS)), Tone: "run"}
	case d.Status == run.Lost:
		say = templates.Sentence{Lead: text.Of("Its outcome is unknown."), Rest: text.Of("The worker that had it has not been heard of; the command may still run."), Tone: "warn"}
	case d.Status == run.Succeeded:
		say = templates.Sentence{Lead: text.Of("Succeeded"), Rest: text.Of("after %s.", how), Tone: "ok"}
	case d.Status.Terminal():
		say = ended(d, how)
	default:
		say = templates.Sentence{Lead: text.Of("Not yet queued.")}
	}
	if d.CancelRequestedAtMS != nil && !d.Status.Terminal() {
		return []templates.Sentence{say, {Lead: text.Of("Stopping"), Rest: text.Of("was asked for."), Tone: "warn"}}
	}
	return []templates.Sentence{say}
}

// advice says what a lost Run means and what to do about it.
func advice(d run.Detail) []text.Text {
	if d.Status != run.Lost {
		return nil
	}
	look := text.Of("Look at its worker: does the command still run, and what has it done? The logs of the Attempt may say.")
	if n := len(d.Attempts); n > 0 && d.Attempts[n-1].Worker != nil {
		look = text.Of("Look at its worker, %s: does the command still run, and what has it done? The logs of the Attempt may say.", visible(*d.Attempts[n-1].Worker))
	}
	return []text.Text{
		text.Of("Lost is no failure: the lease of its worker lapsed, so nobody here may move it any further, and it ends only if that worker reports after all."),
		look,
		text.Of("It cannot be retried, because running it beside itself may do harm. Later occurrences of its Trigger run as usual."),
	}
}

// endings are the ways in which a Run ends that does not succeed.
var endings = map[run.Status]text.Text{run.Failed: text.Of("Failed"), run.Cancelled: text.Of("Cancelled"), run.TimedOut: text.Of("Timed out")}

// ended says how a Run that did not succeed did end.
func ended(d run.Detail, how text.Text) templates.Sentence {
	lead := endings[d.Status]
	switch {
	case d.ExitCode != nil:
		lead = text.Of("Exit %s", strconv.Itoa(*d.ExitCode))
	case d.ErrorCode != nil && *d.ErrorCode != string(d.Status):
		lead = text.Of("%s (%s)", lead, visible(strings.ReplaceAll(*d.ErrorCode, "_", " ")))
	}
	say := templates.Sentence{Lead: lead, Rest: text.Of("before it had started."), Tone: runStatuses[d.Status].Tone}
	if !how.Empty() {
		say.Rest = text.Of("after %s.", how)
	}
	return say
}

// runTimes are those that every Run has or may have, whether or not they have come, so that none comes out of nowhere.
func runTimes(d run.Detail, nowMS int64) []templates.Pair {
	list := []templates.Pair{
		{Name: text.Of("Created"), Instant: instant(d.CreatedAtMS, nowMS)},
		{Name: text.Of("Queued"), Instant: maybe(d.QueuedAtMS, nowMS)},
		{Name: text.Of("Started"), Instant: maybe(d.StartedAtMS, nowMS)},
		{Name: text.Of("Finished"), Instant: maybe(d.FinishedAtMS, nowMS)},
	}
	for i := range list {
		if list[i].Instant.Machine == "" {
			list[i].Note, list[i].Tone = notYet(d), "soft"
		}
	}
	if d.CancelRequestedAtMS != nil {
		list = append(list, templates.Pair{Name: text.Of("Stop asked for"), Instant: instant(*d.CancelRequestedAtMS, nowMS)})
	}
	if by, reason, ok := d.Stop(); ok {
		list = append(list, templates.Pair{Name: text.Of("Asked by"), Note: text.Data(shorten(visible(by), listName))})
		if reason != "" {
			list = append(list, templates.Pair{Name: text.Of("Why"), Words: linked(reason)})
		}
	}
	return append(list, templates.Pair{Name: text.Of("Version"), Note: text.Data(strconv.FormatInt(d.Version, 10))})
}

func attempts(list []run.AttemptDetail, nowMS int64) []templates.Attempt {
	var rows []templates.Attempt
	for _, a := range list {
		row := templates.Attempt{
			Number: strconv.Itoa(a.Attempt), Status: runStatuses[a.Status], Worker: text.Of("none yet"), Started: maybe(a.StartedAtMS, nowMS),
			Duration: took(a.StartedAtMS, a.FinishedAtMS, nowMS),
		}
		row.Reason, row.Whole = folding(runReason(run.Summary{ErrorCode: a.ErrorCode, ErrorSummary: a.ErrorSummary}))
		if a.Worker != nil {
			row.Worker = text.Data(visible(*a.Worker))
		}
		if a.ExitCode != nil {
			row.Exit = strconv.Itoa(*a.ExitCode)
		}
		rows = append(rows, row)
	}
	return rows
}

// foldMiddle keeps the first and the last rows of a long list in sight.
func foldMiddle[T any](list []T) templates.Folded[T] {
	if len(list) <= rowsSeen {
		return templates.Folded[T]{First: list}
	}
	first, last := rowsSeen/4, len(list)-rowsSeen/2
	return templates.Folded[T]{First: list[:first], Middle: list[first:last], Last: list[last:], Fold: text.Of("%s more between these", last-first)}
}

// folding is a text for a line of a list and, when that is not all of it, the whole.
func folding(x text.Text) (line, whole text.Text) {
	line = x.Map(func(s string) string { return shorten(s, cellText) })
	if line.Equal(x) {
		return line, text.Text{}
	}
	return line, x
}

func events(list []run.Event, nowMS int64) []templates.Event {
	var rows []templates.Event
	for _, e := range list {
		rows = append(rows, templates.Event{
			Sequence: strconv.FormatInt(e.Sequence, 10), Name: eventWord(e.Type), Type: visible(e.Type), At: instant(e.CreatedAtMS, nowMS),
			Offset: text.Of("+%s", duration(e.CreatedAtMS-list[0].CreatedAtMS)), Actor: actorWord(e.ActorType, e.Name()), Payload: facts(e.Payload),
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
