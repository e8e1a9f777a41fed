package web

import (
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// previewManyPage is the page of a good verification for a batch: led by what needs a look, then every Run and its verdict.
func (s *server) previewManyPage(c echo.Context, o ownBatch, p runmgmt.BatchPreview, x shown) templates.PreviewMany {
	name := s.title(o.deed, len(p.Runs), o.view.ProjectID)
	page := templates.PreviewMany{
		Page: s.page(c, name, runsPath, p.NowMS), Name: name, Found: x.found.Map(visible), Reason: linked(o.batch.Words),
		Proof: proofOf(o.acting, p.Level, p.LeftMS, provenForMany(o.deed, len(p.Runs))), Again: s.verifyBatchAgain(o.batch.ID, x.only.places(o.view.Members)),
		Since: manySince(o.deed, p), Plans: plansOf(p, taskNames(o.view)),
	}
	page.Picks = true
	var notes taskNotes
	for _, r := range p.Runs {
		page.Rows = append(page.Rows, s.previewRow(o.deed, r, x, p.NowMS))
		notes.add(r.Source.TaskID, r.Note)
	}
	page.Tasks = notes.worth(o.deed)
	page.Form = templates.Form{Action: s.links.submission(o.batch.ID, ""), Button: o.many.button, Note: o.many.submits, Back: s.toBatch(o.batch.ID)}
	if len(p.Unsafe()) > 0 {
		page.Form.Confirm = text.Of("Retry also those of which the Task’s author says that running them again is not safe")
	}
	return page
}

// provenForMany says what a verification is for.
func provenForMany(d deed, n int) text.Text {
	if d.stops() {
		return text.Count(n, "stopping 1 Run", "stopping %s Runs")
	}
	return text.Count(n, "retrying 1 Run", "retrying %s Runs")
}

// taskNames are the names of the Tasks of a batch, by id.
func taskNames(b runmgmt.BatchView) map[string]string {
	names := map[string]string{}
	for _, m := range b.Members {
		names[m.TaskID] = shorten(visible(m.TaskName), listName)
	}
	return names
}

// taskNotes are what is to be known of the Tasks of a set, in the order of its Runs.
type taskNotes struct {
	ids   []string
	runs  map[string]int
	notes map[string]catalog.RetryContent
}

func (t *taskNotes) add(task string, note catalog.RetryContent) {
	if t.runs == nil {
		t.runs, t.notes = map[string]int{}, map[string]catalog.RetryContent{}
	}
	if t.runs[task] == 0 {
		t.ids = append(t.ids, task)
	}
	t.runs[task]++
	t.notes[task] = note
}

// worth are those of which there is something to say: that is not safe, first.
func (t *taskNotes) worth(d deed) (list []templates.TaskNote) {
	if d.stops() {
		return nil
	}
	for _, task := range t.ids {
		n, note := t.runs[task], t.notes[task]
		if n < 2 && note.Note == "" && !note.Unsafe() {
			continue
		}
		row := templates.TaskNote{Task: visible(task), Runs: text.Count(n, "1 Run", "%s Runs"), Note: visible(note.Note), Unsafe: note.Unsafe()}
		if n > 1 {
			row.Times = text.Of("would be executed %s times", n)
		}
		list = append(list, row)
	}
	slices.SortStableFunc(list, func(a, b templates.TaskNote) int {
		switch {
		case a.Unsafe == b.Unsafe:
			return 0
		case a.Unsafe:
			return -1
		}
		return 1
	})
	return list
}

// manySince leads the preview: what may make it needless or harmful, or be refused.
func manySince(d deed, p runmgmt.BatchPreview) []templates.Sentence {
	var list []templates.Sentence
	add := func(n int, tone string, lead text.Text, rest text.Text) {
		if n > 0 {
			list = append(list, templates.Sentence{Lead: lead, Rest: rest, Tone: tone})
		}
	}
	refused := len(p.Runs) - len(p.Good())
	add(refused, "bad", text.Count(refused, "1 Run would be refused", "%s Runs would be refused"), text.Of("and is not selected below; the others can be submitted without it."))
	if !d.stops() {
		unsafe, repeated := len(p.Unsafe()), 0
		for _, group := range p.Duplicates() {
			repeated += len(group)
		}
		add(unsafe, "warn", text.Count(unsafe, "1 Run is not safe to run again,", "%s Runs are not safe to run again,"), text.Of("says the Task’s author. They take the second confirmation."))
		add(repeated, "warn", text.Count(len(p.Duplicates()), "1 Task is in the set more than once:", "%s Tasks are in the set more than once:"),
			text.Of("%s Runs, and each would be executed. One may be enough.", repeated))
	}
	succeeded, going := laterOfMany(p)
	add(succeeded, "warn", text.Count(succeeded, "1 Run is of a Task that has succeeded since,", "%s Runs are of Tasks that have succeeded since,"), text.Of("so it may be needless."))
	add(going, "warn", text.Count(going, "1 Run is of a Task that is running now,", "%s Runs are of Tasks that are running now,"), text.Of("and would run beside it."))
	if p.Limit != nil {
		list = append(list, templates.Sentence{Lead: text.Of("There is no room for all of them now."), Rest: p.Limit.Detail, Tone: "bad"})
	} else if !d.stops() {
		list = append(list, templates.Sentence{Lead: text.Of("%s of %s retries left this minute.", p.Quota, runmgmt.Quota)})
	}
	return list
}

func laterOfMany(p runmgmt.BatchPreview) (succeeded, going int) {
	for _, r := range p.Runs {
		switch {
		case r.Later == nil || r.Refusal() != nil || !r.Source.Status.Terminal():
		case r.Later.Status == run.Succeeded:
			succeeded++
		case !r.Later.Status.Terminal():
			going++
		}
	}
	return succeeded, going
}

// previewRow is a Run with its verdict. One that would be refused has no box; one that was refused a moment ago, and would
// not be now, has to be ticked anew.
func (s *server) previewRow(d deed, r runmgmt.BatchRun, x shown, nowMS int64) templates.BatchRow {
	row := s.batchRow(r.Source, nowMS)
	row.Unsafe = !d.stops() && r.Note.Unsafe()
	if r.Later != nil {
		row.Later, row.LaterStatus = shortID(r.Later.ID, s.links.run(r.Later.ID)), runStatuses[r.Later.Status]
	}
	before := x.refused[r.Source.ID]
	refusal := r.Refusal()
	if refusal != nil {
		row.Verdict, row.Why = failedCheck, refusal.Detail.Map(visible)
		return row
	}
	row.Verdict, row.Field, row.Value = passedCheck, "run", chosenValue(r.Source.ID, r.Source.NewestRetry)
	if row.Unsafe {
		row.Field = "unsafe"
	}
	row.Checked = x.only.has(r.Source.ID) && before == nil
	if before != nil {
		row.Verdict, row.Why = failedCheck, before.Detail.Map(visible)
		if before.Retry != nil {
			row.Later, row.LaterStatus = shortID(*before.Retry, s.links.run(*before.Retry)), templates.Status{}
		}
	}
	return row
}

// plansOf are what will run, each once, with how many of the Runs run it.
func plansOf(p runmgmt.BatchPreview, names map[string]string) []templates.PlanOf {
	var list []templates.PlanOf
	at := map[string]int{}
	count := map[string]int{}
	for _, r := range p.Runs {
		digest := r.Plan.ExecutionDigest
		if len(r.Plan.Command) == 0 {
			continue
		}
		if _, ok := at[digest]; !ok {
			at[digest] = len(list)
			list = append(list, templates.PlanOf{Name: names[r.Source.TaskID], Pairs: planPairs(r.Plan, r.Source.TaskRevision)})
		}
		count[digest]++
		list[at[digest]].Runs = text.Count(count[digest], "1 Run", "%s Runs")
	}
	return list
}
