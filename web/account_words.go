package web

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
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
	scheduler.WasAdmitted:    {Word: text.Of("admitted"), Shape: "disc", Tone: "ok"},
	scheduler.WasSkipped:     {Word: text.Of("skipped"), Shape: "hourglass", Tone: "warn"},
	scheduler.WasCoalesced:   {Word: text.Of("coalesced"), Shape: "diamond", Tone: "warn"},
	scheduler.WasSuperseded:  {Word: text.Of("superseded"), Shape: "half", Tone: "idle"},
	scheduler.WasPaused:      {Word: text.Of("paused"), Shape: "pause", Tone: "warn"},
	scheduler.WasDisabled:    {Word: text.Of("disabled"), Shape: "square", Tone: "idle"},
	scheduler.WasArchived:    {Word: text.Of("archived"), Shape: "pause", Tone: "idle"},
	scheduler.IsPending:      {Word: text.Of("pending"), Shape: "ring", Tone: "run"},
	scheduler.IsBlocked:      {Word: text.Of("blocked"), Shape: "triangle", Tone: "bad"},
	scheduler.WasUnaccounted: {Word: text.Of("UNACCOUNTED"), Shape: "triangle", Tone: "bad"},
}

// daylight words what a change of the clock does to an instant.
var daylight = map[string]text.Text{
	cron.MarkGap:      text.Of("the clock skips its local time that day; first instant after the gap"),
	cron.MarkRepeated: text.Of("this local time comes twice that day"),
}

// accountSentences say how many instants met which end.
func accountSentences(a scheduler.Account, l scheduler.Lane) []templates.Sentence {
	n, total, some := map[scheduler.Verdict]int{}, 0, l.KnownFromMS > a.FromMS+1
	for _, p := range l.Parts {
		total += p.Instants
		for v, k := range p.ByVerdict {
			n[v] += k
		}
	}
	var parts []text.Text
	for _, v := range verdicts {
		if n[v] > 0 {
			parts = append(parts, text.Of("%s %s", n[v], verdictStatuses[v].Word))
		}
	}
	of := text.Count(total, "Of 1 expected instant:", "Of %s expected instants:")
	if some {
		of = text.Count(total, "Of the newest 1 expected instant (the range has older ones):", "Of the newest %s expected instants (the range has older ones):")
	}
	var list []templates.Sentence
	if len(parts) > 0 {
		list = append(list, templates.Sentence{Lead: of, Rest: text.Of("%s.", text.Join(text.Of(", "), parts...))})
	}
	if u := n[scheduler.WasUnaccounted]; u > 0 {
		list = append(list, templates.Sentence{Lead: text.Count(u, "1 instant is unaccounted for,", "%s instants are unaccounted for,"),
			Rest: text.Of("which must never happen. Please report it, with the JSON of this account."), Tone: "bad"})
	}
	return list
}

func noInstants(d scheduler.Detail, plan scheduler.Plan, r accountRange) templates.Empty {
	if plan.Words.Empty() {
		return templates.Empty{Why: text.Of("What it expected cannot be computed."), What: text.Of("The Trigger's content cannot be read. Publish it again.")}
	}
	if first := plan.After(d.PublishedAtMS, 1); r.fromMS <= d.PublishedAtMS && len(first) > 0 {
		return templates.Empty{Why: text.Of("No instant was expected in this range."), What: text.Of("Revision %s of the Trigger was published at %s, and its first instant is %s.",
			d.Revision, instant(d.PublishedAtMS, d.NowMS).Text, instant(first[0].At.UnixMilli(), d.NowMS).Text)}
	}
	return templates.Empty{Why: text.Of("No instant was expected in this range."),
		What: text.Of("The Trigger fires %s, %s, and expects nothing from before it was published. Choose a longer range.", plan.Words, plan.Timezone)}
}

// spells words the first n of list, and how many more there are.
func spells(list iter.Seq2[int, scheduler.Spell], nowMS int64, n int) (shown []templates.Spell, more text.Text) {
	left := 0
	for _, x := range list {
		if len(shown) == n {
			left++
			continue
		}
		shown = append(shown, spell(x, nowMS))
	}
	if left > 0 {
		more = text.Count(left, "And 1 time without a replica before that.", "And %s times without a replica before that.")
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
	left     int            // how many instants may yet be unfolded on the page
	anchors  map[int64]bool // the instants that have one
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
		return row
	}
	row.Anchor, w.anchors[last.AtMS] = instantAnchor(last.AtMS), true
	if last.RunID != nil {
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
func local(firstMS, lastMS int64, loc *time.Location) []text.Text {
	first, last := time.UnixMilli(firstMS).In(loc), time.UnixMilli(lastMS).In(loc)
	const shared = time.DateOnly + " MST"
	switch {
	case firstMS == lastMS:
		return []text.Text{dated(first)}
	case first.Format(shared) == last.Format(shared):
		return []text.Text{onDay(first, "15:04:05 –"), text.Data(last.Format(clock))}
	}
	return []text.Text{onDay(first, clock+" –"), dated(last)}
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
	row.Count = text.Count(len(instants), "1 instant", "%s instants")
	shown := min(len(instants), maxEach, w.left)
	w.left -= shown
	for _, i := range instants[:shown] {
		e := templates.Each{At: instant(i.AtMS, w.nowMS), Anchor: instantAnchor(i.AtMS)}
		w.anchors[i.AtMS] = true
		if i.RunID != nil {
			e.Run.URL, e.Status = w.server.links.run(*i.RunID), runStatuses[run.Status(i.RunStatus)]
		}
		row.Each = append(row.Each, e)
	}
	row.EachOf = text.Of("each of them")
	if shown < len(instants) {
		row.EachOf = text.Of("the newest %s of them", shown)
	}
	if instants[0].Verdict == scheduler.WasAdmitted {
		row.Runs = templates.Link{Text: text.Of("these Runs"), URL: w.server.links.runs("project", w.d.ProjectID, "trigger", w.d.TriggerID,
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
func why(instants []scheduler.Instant) text.Text {
	if i := instants[0]; i.Unattended && i.Verdict != scheduler.IsPending {
		return text.Of("%s No replica was running then.", end(instants))
	}
	return end(instants)
}

// end says it in one sentence.
func end(instants []scheduler.Instant) text.Text {
	i, late := instants[0], lateness(instants)
	reason := scheduler.Why(i.Reason).Map(visible)
	none := reason.Empty()
	switch i.Verdict {
	case scheduler.WasAdmitted:
		if i.CatchUp {
			return text.Of("Became a Run, %s: the last of those that a pause had held back, and it stands for all of them.", late)
		}
		return choose(len(instants) == 1, text.Of("Became a Run, %s.", late), text.Of("Became a Run, %s: %s.", late, outcomesOf(instants)))
	case scheduler.WasSkipped:
		return choose(none, text.Of("It was %s when a replica looked, and too late to run.", late),
			text.Of("It was %s when a replica looked, and too late to run: %s.", late, reason))
	case scheduler.WasCoalesced:
		return text.Of("Passed over: when a replica looked, the oldest of this backlog was %s. A backlog is not replayed.", late)
	case scheduler.WasSuperseded:
		return choose(none, text.Of("Due, but not yet admitted."), text.Of("Due, but not yet admitted when %s.", reason))
	case scheduler.WasPaused:
		return choose(none, text.Of("Held back while the Trigger was paused."), text.Of("Held back while the Trigger was paused: %s.", reason))
	case scheduler.WasDisabled:
		return text.Of("Revision %s of the Trigger was in force, and it or its Task was disabled.", strconv.FormatInt(i.Revision, 10))
	case scheduler.WasArchived:
		return text.Of("Nothing is admitted in an archived Project.")
	case scheduler.IsPending:
		return choose(none, text.Of("Not decided yet."), text.Of("Not decided yet: %s.", reason))
	case scheduler.IsBlocked:
		return choose(none, text.Of("Cannot be decided. It stays due until the cause is removed."),
			text.Of("Cannot be decided: %s. It stays due until the cause is removed.", reason))
	}
	return text.Of("It should have been decided, but %s.", reason)
}

// lateness words the least and the largest lateness.
func lateness(instants []scheduler.Instant) text.Text {
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
		return text.Of("some time late")
	case duration(*least).Equal(duration(*most)):
		return text.Of("%s late", duration(*least))
	}
	return text.Of("%s to %s late", duration(*least), duration(*most))
}

// outcomesOf counts what became of the Runs of several instants.
func outcomesOf(instants []scheduler.Instant) text.Text {
	n := map[run.Status]int{}
	for _, i := range instants {
		n[run.Status(i.RunStatus)]++
	}
	var parts []text.Text
	for _, s := range run.RunStatuses() {
		if n[s] > 0 {
			parts = append(parts, text.Of("%s %s", n[s], runStatuses[s].Word))
		}
	}
	return text.Join(text.Of(", "), parts...)
}
