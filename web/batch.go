package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// What a submission that led to a batch came to.
var batchQuery = []string{"retry", "stop"}

// batchJSON is a batch for a client.
type batchJSON struct {
	runmgmt.BatchView
	Progress  map[run.Status]int `json:"progress"`  // of what was made
	Remaining int                `json:"remaining"` // those of it that have not ended
}

// batch is a batch for everybody who sees its Project, for ever, once it is submitted, and before that for who selected it.
func (s *server) batch(c echo.Context) (reply, error) {
	if _, err := query(c, batchQuery...); err != nil {
		return reply{}, err
	}
	id, err := wholeID(strings.TrimSuffix(c.Param("id"), ".json"))
	if err != nil {
		return reply{}, noBatch(err)
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	b, err := runmgmt.ReadBatch(c.Request().Context(), s.DB, v.sees(""), whoAsks(c), id)
	if err != nil {
		return reply{}, noBatch(err)
	}
	return reply{
		json: func() any { return batchJSON{b, b.Progress(), b.Remaining()} },
		page: func() templ.Component { return templates.BatchPage(s.batchPage(c, v, b)) },
	}, nil
}

func (s *server) batchPage(c echo.Context, v viewer, b runmgmt.BatchView) templates.Batch {
	d, _ := deedOf(b.Action)
	made := b.Done()
	page := templates.Batch{Page: s.page(c, batchName(d, b), runsPath, b.NowMS), Name: batchName(d, b), Sentences: batchSentences(d, b), Pairs: s.batchPairs(b)}
	page.JSON = s.links.batch(b.ID) + ".json"
	page.Parts, page.Summary = partsOf(b.Progress())
	for _, m := range b.Members {
		page.Rows = append(page.Rows, s.madeRow(d, b, m))
	}
	page.Markdown = s.batchMarkdown(d, b)
	session, err := oidc.Current(c.Request().Context())
	if err != nil || session.UserID != b.UserID {
		return page
	}
	if b.SubmittedAtMS == nil {
		page.Submit = templates.Link{Text: text.Of("Go on with it"), URL: s.links.submission(b.ID, "")}
	} else if len(made) > 0 {
		page.Done = batchDone[d.path+" "+c.QueryParam(d.path)]
	}
	if v.access.Decide(b.ProjectID, policy.RetryRun).Allowed && b.Remaining() == 0 && !d.stops() {
		page.Again = s.retryFailed(made)
	}
	return page
}

// batchDone say what a submission came to, on the page that it led to.
var batchDone = map[string]text.Text{
	"retry made":   text.Of("The new Runs were made by your submission. Those that they retry have not changed."),
	"retry before": text.Of("These Runs were made when you sent the form the first time. Sending it again made nothing new."),
	"stop made":    text.Of("Your request to stop these Runs is on record. Whoever executes them ends them."),
	"stop before":  text.Of("These Runs were asked to stop when you sent the form the first time. Sending it again changed nothing."),
}

func batchName(d deed, b runmgmt.BatchView) text.Text {
	n := len(b.Done())
	if b.SubmittedAtMS == nil {
		n = len(b.Members)
	}
	if d.stops() {
		return text.Count(n, "Stop of 1 Run", "Stop of %s Runs")
	}
	return text.Count(n, "Retry of 1 Run", "Retry of %s Runs")
}

// batchSentences say how it stands and what remains.
func batchSentences(d deed, b runmgmt.BatchView) []templates.Sentence {
	if b.SubmittedAtMS == nil {
		return []templates.Sentence{{Lead: text.Of("Not submitted."), Rest: text.Of("The Runs are chosen, and nothing has been done to them."), Tone: "warn"}}
	}
	made, left, counts := len(b.Done()), b.Remaining(), b.Progress()
	var list []templates.Sentence
	switch good := counts[run.Succeeded]; {
	case left > 0:
		list = append(list, templates.Sentence{Lead: text.Count(left, "1 Run remains", "%s Runs remain"), Rest: text.Of("of %s; the others have ended.", made), Tone: "run"})
	case d.stops():
		list = append(list, templates.Sentence{Lead: text.Of("All have ended."), Tone: "ok"})
	case good == made:
		list = append(list, templates.Sentence{Lead: text.Of("All have succeeded."), Tone: "ok"})
	default:
		lead := text.Of("%s of %s have not succeeded.", made-good, made)
		if good == 0 {
			lead = text.Of("None has succeeded.")
		}
		list = append(list, templates.Sentence{Lead: lead, Rest: text.Of("Nothing of this batch is going on any more."), Tone: "bad"})
	}
	if dropped := len(b.Members) - made; dropped > 0 {
		list = append(list, templates.Sentence{Rest: text.Count(dropped, "1 Run was left out when it was submitted.", "%s Runs were left out when it was submitted.")})
	}
	return list
}

// partsOf draws how many Runs are in which state as parts of one bar.
func partsOf(counts map[run.Status]int) (list []templates.Part, summary text.Text) {
	total, before := 0, 0
	for _, n := range counts {
		total += n
	}
	var words []text.Text
	for _, status := range progressOrder {
		n := counts[status]
		if n == 0 {
			continue
		}
		part := templates.Part{X: percent(float64(before), float64(total)), Width: percent(float64(n), float64(total)), Status: runStatuses[status], Count: count(n, false)}
		list, before = append(list, part), before+n
		words = append(words, text.Of("%s %s", part.Count, part.Status.Word))
	}
	if len(words) == 0 {
		return nil, text.Of("nothing yet")
	}
	return list, text.Join(text.Of(", "), words...)
}

// progressOrder is how a bar of what goes on is filled: from the left by what has ended well, from the right by what has not
// begun.
var progressOrder = []run.Status{run.Succeeded, run.Failed, run.TimedOut, run.Cancelled, run.Lost, run.Running, run.Dispatching, run.Queued, run.RetryWait,
	run.WaitingApproval, run.Created}

func (s *server) batchPairs(b runmgmt.BatchView) []templates.Pair {
	list := []templates.Pair{{Name: text.Of("By"), Note: text.Data(visible(b.By))}}
	if b.SubmittedAtMS != nil {
		list = append(list, templates.Pair{Name: text.Of("Submitted"), Instant: instant(*b.SubmittedAtMS, b.NowMS)})
	} else {
		list = append(list, templates.Pair{Name: text.Of("Selected"), Instant: instant(b.CreatedAtMS, b.NowMS)})
	}
	return append(list, templates.Pair{Name: text.Of("Why"), Words: linked(b.Words)},
		templates.Pair{Name: text.Of("Project"), Link: templates.Link{Text: text.Data(b.ProjectID), URL: s.links.runs("project", b.ProjectID)}})
}

func (s *server) madeRow(d deed, b runmgmt.BatchView, m runmgmt.BatchMember) templates.MadeRow {
	row := templates.MadeRow{Source: shortID(m.RunID, s.links.run(m.RunID)), Task: shorten(visible(m.TaskName), listName), Project: b.ProjectID, Frozen: runStatuses[m.FrozenStatus]}
	if m.Outcome == nil {
		row.Status = leftOutStatus(b)
		return row
	}
	o := m.Outcome
	row.Status, row.Finished, row.Duration = runStatuses[o.Status], maybe(o.FinishedAtMS, b.NowMS), took(o.StartedAtMS, o.FinishedAtMS, b.NowMS)
	row.Reason = runReason(run.Summary{ErrorCode: o.ErrorCode, ErrorSummary: o.ErrorSummary}).Map(brief)
	if !d.stops() {
		row.Made = shortID(o.RunID, s.links.run(o.RunID))
	}
	if o.StartedAtMS != nil && o.FinishedAtMS == nil {
		row.SoFar = instant(*o.StartedAtMS, b.NowMS).Ago
	}
	return row
}

func leftOutStatus(b runmgmt.BatchView) templates.Status {
	if b.SubmittedAtMS == nil {
		return templates.Status{Word: text.Of("selected"), Shape: "ring", Tone: "idle"}
	}
	return templates.Status{Word: text.Of("left out"), Shape: "ring", Tone: "idle"}
}

// retryFailed selects those of the new Runs that a retry can answer.
func (s *server) retryFailed(made []runmgmt.BatchMember) templates.Form {
	f := templates.Form{Action: s.links.url(selectPath, nil), Fields: []templates.Field{{Name: "action", Value: retrying.path}}}
	for _, m := range made {
		if runmgmt.InState(policy.RetryRun, m.Outcome.Status) == nil {
			f.Fields = append(f.Fields, templates.Field{Name: "run", Value: m.Outcome.RunID.String()})
		}
	}
	n := len(f.Fields) - 1
	if n == 0 {
		return templates.Form{}
	}
	f.Button = text.Count(n, "Retry the one that did not succeed…", "Retry the %s that did not succeed…")
	return f
}

// batchMarkdown is a batch for a chat: how it stands, and each Run that has ended badly.
func (s *server) batchMarkdown(d deed, b runmgmt.BatchView) text.Text {
	_, summary := partsOf(b.Progress())
	if b.SubmittedAtMS == nil {
		summary = text.Of("Not submitted.")
	}
	lines := []text.Text{text.Of("**%s** (%s), by %s: %s: %s", batchName(d, b), markdown(b.ProjectID), markdown(b.By), summary, s.publicURL(s.links.batch(b.ID)))}
	for _, m := range b.Done() {
		if o := m.Outcome; o.Status.Terminal() && o.Status != run.Succeeded && !d.stops() {
			lines = append(lines, text.Of("- %s", runMarkdown(run.Summary{TaskName: m.TaskName, Status: o.Status, ErrorCode: o.ErrorCode, ErrorSummary: o.ErrorSummary},
				s.publicURL(s.links.run(o.RunID)))))
		}
	}
	return text.Join(text.Data("\n"), lines...)
}

// pickRows gives the Runs of a list boxes where something may be done to them, and says what.
func (s *server) pickRows(v viewer, q url.Values, list runsFound, page *templates.Runs) {
	if s.Runs == nil || s.StepUp == nil || page.Embed || !v.access.Somewhere(policy.RetryRun) {
		return
	}
	page.Rows = slices.Clone(page.Rows) // others are shown them, too
	waiting := 0
	for i, r := range list.Runs {
		p := s.pick(v, r)
		if _, answered := list.beside.Answers[r.ID]; p.For == retrying.path && !answered {
			waiting++
			p.Waits = true
			p.Checked = q.Get("select") == "failed"
		}
		page.Rows[i].Pick = p
	}
	page.Picks = true
	page.Picking = templates.Picking{Action: s.links.url(selectPath, nil), Retry: retryManyWords.link, Stop: stopManyWords.link, Most: strconv.Itoa(runmgmt.MaxBatch)}
	if waiting > 0 {
		page.Picking.Failed = templates.Link{Text: text.Count(waiting, "select the 1 not retried yet", "select the %s not retried yet"), URL: s.links.url(runsPath, with(q, "select", "failed"))}
	}
	if len(list.Runs) == 0 && list.Next == nil {
		return // there is none to retry
	}
	if project, err := oneProject(q.Get("project"), v); err == nil && v.access.Decide(project, policy.RetryRun).Allowed {
		page.Picking.Matching = s.everyFailure(without(filters(q), "group", "retried"), project, text.Of("Retry all of this filter…"))
	}
}

// everyFailure leads to the page before a verification for all failures of a filter that nobody has answered.
func (s *server) everyFailure(q url.Values, project string, words text.Text) templates.Link {
	return templates.Link{Text: words, URL: s.links.url(selectPath, with(with(q, "action", retrying.path), "project", project))}
}

// pick is the box of a Run, if its user may do something to it.
func (s *server) pick(v viewer, r run.Summary) templates.Pick {
	for _, d := range []deed{retrying, stopping} {
		if runmgmt.InState(d.action, r.Status) == nil && v.access.Decide(r.ProjectID, d.action).Allowed {
			return templates.Pick{Value: r.ID.String(), For: d.path, Label: text.Of("Select Run %s", shortID(r.ID, "").Short)}
		}
	}
	return templates.Pick{}
}
