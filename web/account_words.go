package web

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/web/templates"
)

const (
	spellsShown   = 3
	maxEach       = 50 // instants that one row unfolds into
	maxEachOnPage = 200
)

// verdicts in the order in which a summary counts them: what needs a look first.
var verdicts = []scheduler.Verdict{scheduler.WasUnaccounted, scheduler.IsBlocked, scheduler.WasAdmitted, scheduler.WasSkipped, scheduler.WasCoalesced,
	scheduler.WasSuperseded, scheduler.WasPaused, scheduler.WasDisabled, scheduler.WasArchived, scheduler.IsPending}

var verdictStatuses = map[scheduler.Verdict]templates.Status{
	scheduler.WasAdmitted:    {Word: "admitted", Shape: "disc", Tone: "ok"},
	scheduler.WasSkipped:     {Word: "skipped", Shape: "hourglass", Tone: "warn"},
	scheduler.WasCoalesced:   {Word: "coalesced", Shape: "diamond", Tone: "warn"},
	scheduler.WasSuperseded:  {Word: "superseded", Shape: "half", Tone: "idle"},
	scheduler.WasPaused:      {Word: "paused", Shape: "pause", Tone: "warn"},
	scheduler.WasDisabled:    {Word: "disabled", Shape: "square", Tone: "idle"},
	scheduler.WasArchived:    {Word: "archived", Shape: "pause", Tone: "idle"},
	scheduler.IsPending:      {Word: "pending", Shape: "ring", Tone: "run"},
	scheduler.IsBlocked:      {Word: "blocked", Shape: "triangle", Tone: "bad"},
	scheduler.WasUnaccounted: {Word: "UNACCOUNTED", Shape: "triangle", Tone: "bad"},
}

// daylight words what a change of the clock does to an instant.
var daylight = map[string]string{
	cron.MarkGap:      "the clock skips its local time that day; first instant after the gap",
	cron.MarkRepeated: "this local time comes twice that day",
}

func accountSentences(a scheduler.Account) []templates.Sentence {
	n := map[scheduler.Verdict]int{}
	for _, i := range a.Instants {
		n[i.Verdict]++
	}
	var parts []string
	for _, v := range verdicts {
		if n[v] > 0 {
			parts = append(parts, count(n[v], false)+" "+verdictStatuses[v].Word)
		}
	}
	of := "Of " + plural(len(a.Instants), "expected instant", "expected instants") + ":"
	if a.Truncated {
		of = "Of the newest " + plural(len(a.Instants), "expected instant", "expected instants") + " (the range has older ones):"
	}
	var list []templates.Sentence
	if len(parts) > 0 {
		list = append(list, templates.Sentence{Lead: of, Rest: strings.Join(parts, ", ") + "."})
	}
	if u := n[scheduler.WasUnaccounted]; u > 0 {
		list = append(list, templates.Sentence{Lead: plural(u, "instant is", "instants are") + " unaccounted for,",
			Rest: "which must never happen. Please report it, with the JSON of this account.", Tone: "bad"})
	}
	return list
}

func noInstants(plan scheduler.Plan) templates.Empty {
	if plan.Words == "" {
		return templates.Empty{Why: "What it expected cannot be computed.", What: "The Trigger's content cannot be read. Publish it again."}
	}
	return templates.Empty{Why: "No instant was expected in this range.",
		What: fmt.Sprintf("The Trigger fires %s, %s, and expects nothing from before it was published. Choose a longer range.", plan.Words, plan.Timezone)}
}

// spells words the first n of list, and how many more there are.
func spells(list iter.Seq2[int, scheduler.Spell], nowMS int64, n int) (shown []templates.Spell, more string) {
	left := 0
	for _, x := range list {
		if len(shown) == n {
			left++
			continue
		}
		shown = append(shown, spell(x, nowMS))
	}
	if left > 0 {
		more = "And " + plural(left, "time", "times") + " without a replica before that."
	}
	return shown, more
}

// spell words x; one that lasts until now has no end.
func spell(x scheduler.Spell, nowMS int64) templates.Spell {
	s := templates.Spell{From: instant(x.FromMS, nowMS), To: instant(x.ToMS, nowMS), Long: duration(x.ToMS - x.FromMS)}
	if x.ToMS >= nowMS {
		s.To = templates.Instant{}
	}
	return s
}

// accountWords words the rows of one account.
type accountWords struct {
	server   *server
	d        scheduler.Detail
	loc      *time.Location
	archived []scheduler.Spell
	nowMS    int64
	left     int // how many instants may yet be unfolded on the page
}

func (w *accountWords) row(x stretch) templates.AccountRow {
	if x.spell != nil {
		return templates.AccountRow{Spell: spell(*x.spell, w.nowMS)}
	}
	last, first := x.instants[0], x.instants[len(x.instants)-1]
	row := templates.AccountRow{
		Verdict: verdictStatuses[last.Verdict], Loud: last.Verdict == scheduler.WasUnaccounted, Why: why(x.instants), Mark: daylight[last.Mark], Archived: w.since(last),
	}
	w.between(&row, first.AtMS, last.AtMS)
	if len(x.instants) > 1 {
		w.unfold(&row, x.instants)
	} else if last.RunID != nil {
		row.Run, row.RunStatus = shortID(*last.RunID, w.server.links.run(*last.RunID)), runStatuses[run.Status(last.RunStatus)]
	}
	return row
}

// between words the instants from first to last, on the Trigger's clock and in UTC, saying once what both have in common.
func (w *accountWords) between(row *templates.AccountRow, firstMS, lastMS int64) {
	row.First, row.Last = instant(firstMS, w.nowMS), instant(lastMS, w.nowMS)
	if w.loc != time.UTC {
		row.Local = local(firstMS, lastMS, w.loc)
	}
	if firstMS == lastMS {
		return
	}
	row.First.Text = strings.TrimSuffix(row.First.Text, " UTC")
	day, _, _ := strings.Cut(row.First.Text, " ")
	row.Last.Text = strings.TrimPrefix(row.Last.Text, day+" ")
}

// local words instants on a Trigger's clock, the day and the offset once if they share them.
func local(firstMS, lastMS int64, loc *time.Location) []string {
	first, last := time.UnixMilli(firstMS).In(loc), time.UnixMilli(lastMS).In(loc)
	const day, clock, whole = "Mon 2 Jan ", "15:04:05", "Mon 2 Jan 15:04:05 MST"
	switch {
	case firstMS == lastMS:
		return []string{first.Format(whole)}
	case first.Format(day+"MST") == last.Format(day+"MST"):
		return []string{first.Format(day+clock) + " –", last.Format(clock + " MST")}
	}
	return []string{first.Format(whole) + " –", last.Format(whole)}
}

// since says from when until when the Project was archived, at i.
func (w *accountWords) since(i scheduler.Instant) templates.Spell {
	for _, x := range w.archived {
		if i.Verdict == scheduler.WasArchived && x.FromMS < i.AtMS && i.AtMS <= x.ToMS {
			return spell(x, w.nowMS)
		}
	}
	return templates.Spell{}
}

// unfold lists the newest of instants, as many as there is room for.
func (w *accountWords) unfold(row *templates.AccountRow, instants []scheduler.Instant) {
	row.Count = plural(len(instants), "instant", "instants")
	shown := min(len(instants), maxEach, w.left)
	w.left -= shown
	for _, i := range instants[:shown] {
		e := templates.Each{At: instant(i.AtMS, w.nowMS)}
		e.At.Text = strings.TrimSuffix(e.At.Text, " UTC") // the summary says so
		if i.RunID != nil {
			e.Run.URL, e.Status = w.server.links.run(*i.RunID), runStatuses[run.Status(i.RunStatus)]
		}
		row.Each = append(row.Each, e)
	}
	row.EachOf = "each of them, UTC"
	if shown < len(instants) {
		row.EachOf = fmt.Sprintf("the newest %d of them, UTC", shown)
	}
	if instants[0].Verdict == scheduler.WasAdmitted {
		row.Runs = templates.Link{Text: "these Runs", URL: w.server.links.runs("project", w.d.ProjectID, "trigger", w.d.TriggerID,
			"since", rfc3339(instants[len(instants)-1].AtMS), "until", rfc3339(lastCreated(instants)+1000))}
	}
}

// lastCreated is when the last of the Runs was created.
func lastCreated(instants []scheduler.Instant) (ms int64) {
	for _, i := range instants {
		if i.LatenessMS != nil {
			ms = max(ms, i.AtMS+*i.LatenessMS)
		}
	}
	return ms
}

// why says what became of instants that met the same end. From when until when there was no replica is in the row
// above; what is pending for that reason says so itself.
func why(instants []scheduler.Instant) string {
	if i := instants[0]; i.Unattended && i.Verdict != scheduler.IsPending {
		return end(instants) + " No replica was running then."
	}
	return end(instants)
}

// end says it in one sentence.
func end(instants []scheduler.Instant) string {
	i, late := instants[0], lateness(instants)
	reason := visible(i.Reason)
	switch i.Verdict {
	case scheduler.WasAdmitted:
		return "Became a Run, " + late + " late" + outcomesOf(instants) + "."
	case scheduler.WasSkipped:
		return "It was " + late + " late when a replica looked, and too late to run" + led(": ", reason) + "."
	case scheduler.WasCoalesced:
		return "Passed over: when a replica looked, the oldest of this backlog was " + late + " late. A backlog is not replayed."
	case scheduler.WasSuperseded:
		return "Due, but not yet admitted" + led(" when ", reason) + "."
	case scheduler.WasDisabled:
		return fmt.Sprintf("Revision %d of the Trigger was in force, and it or its Task was disabled.", i.Revision)
	case scheduler.WasArchived:
		return "Nothing is admitted in an archived Project."
	case scheduler.IsPending:
		return "Not decided yet" + led(": ", reason) + "."
	case scheduler.IsBlocked:
		return "Cannot be decided" + led(": ", reason) + ". It stays due until the cause is removed."
	}
	return "It should have been decided, but" + led(" ", reason) + "."
}

func led(by, reason string) string {
	if reason == "" {
		return ""
	}
	return by + reason
}

// lateness words the least and the largest lateness.
func lateness(instants []scheduler.Instant) string {
	var least, most *int64
	for _, i := range instants {
		if l := i.LatenessMS; l != nil {
			if least == nil || *l < *least {
				least = l
			}
			if most == nil || *l > *most {
				most = l
			}
		}
	}
	switch {
	case least == nil:
		return "some time"
	case duration(*least) == duration(*most):
		return duration(*least)
	}
	return duration(*least) + " to " + duration(*most)
}

// outcomesOf counts what became of the Runs of several instants.
func outcomesOf(instants []scheduler.Instant) string {
	if len(instants) == 1 {
		return ""
	}
	n := map[run.Status]int{}
	for _, i := range instants {
		n[run.Status(i.RunStatus)]++
	}
	var parts []string
	for _, s := range run.RunStatuses() {
		if n[s] > 0 {
			parts = append(parts, count(n[s], false)+" "+runStatuses[s].Word)
		}
	}
	return ": " + strings.Join(parts, ", ")
}
