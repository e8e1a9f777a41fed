package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	selectPath = "/batches/new"
	freezePath = "/batches/freeze"
)

// selectQuery says which Runs, where they are not named one by one: all of a filter to which the deed is an answer.
var selectQuery = []string{"action", "project", "status", "origin", "task", "trigger", "since", "until", zoneParameter, "q"}

// selection is Runs of one Project that somebody wants to do the same to, and has not given a reason for yet.
type selection struct {
	acting
	project string
	runs    []uuid.UUID
	more    bool // others match as well
	matched bool // a filter chose them
}

// selectMatching is the page before a verification for all Runs of a filter.
func (s *server) selectMatching(c echo.Context) error {
	q, err := query(c, selectQuery...)
	if err != nil {
		return err
	}
	d, ok := deedOf(q.Get("action"))
	if !ok {
		return badQuery(text.Of("There is no %s %s; there are: %s.", "action", cited(q.Get("action")), "retry, stop"))
	}
	x := selection{}
	if x.acting, err = s.acting(c, d); err != nil {
		return err
	}
	if x.project, err = oneProject(q.Get("project"), x.viewer); err != nil {
		return err
	}
	if err := s.mayAct(c, x.acting, s.atProject(x.project)); err != nil {
		return err
	}
	f, err := runFilter(q, x.viewer)
	if err != nil {
		return err
	}
	f.Projects = []string{x.project}
	if err := s.wholeText(c.Request().Context(), f); err != nil {
		return err
	}
	if x.runs, x.more, err = s.matching(c.Request().Context(), d, f); err != nil {
		return err
	}
	x.matched = true
	return s.askMany(c, x, correction{})
}

// wholeText refuses a text that names more than is looked for.
func (s *server) wholeText(ctx context.Context, f run.Filter) error {
	if f.Text == "" {
		return nil
	}
	page, err := run.List(ctx, s.DB, f, nil, 1)
	return whole(page.Partial, err)
}

// oneProject is the Project that is named, or the only one there is. One out of sight is none.
func oneProject(named string, v viewer) (string, error) {
	list := v.sees(named)
	switch {
	case len(list) == 1:
		return list[0], nil
	case named == "":
		return "", badQuery(text.Of("A batch is of one Project: name it with %s.", "project="))
	}
	return "", run.ErrNotFound
}

func (s *server) atProject(project string) aim {
	return aim{project: project, back: templates.Link{Text: text.Of("To the Runs"), URL: s.links.runs("project", project)}}
}

// matching are the newest Runs of the filter to which the deed is an answer, the oldest of them first, and whether there
// are others.
func (s *server) matching(ctx context.Context, d deed, f run.Filter) (ids []uuid.UUID, more bool, err error) {
	var answers []run.Status
	for _, status := range run.RunStatuses() {
		if runmgmt.InState(d.action, status) == nil && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)) {
			answers = append(answers, status)
		}
	}
	if f.Statuses = answers; len(answers) == 0 {
		return nil, false, nil
	}
	if !d.stops() {
		if f.Statuses = both(answers, run.Retriable()); len(f.Statuses) == 0 {
			f.Statuses = answers
		}
		return run.Unanswered(ctx, s.DB, f, runmgmt.MaxBatch)
	}
	page, err := run.List(ctx, s.DB, f, nil, runmgmt.MaxBatch)
	for _, r := range page.Runs {
		ids = append([]uuid.UUID{r.ID}, ids...)
	}
	return ids, page.Next != nil, err
}

func both[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool { return !slices.Contains(b, x) })
}

// selectChosen is the page before a verification for the Runs of a form.
func (s *server) selectChosen(c echo.Context) error {
	x, _, err := s.chosen(c)
	if err != nil {
		return err
	}
	return s.askMany(c, x, correction{})
}

// chosen reads the Runs of a form. Which Project they are of, the first says; those that are of another one, or that
// nobody may see, are left out alike.
func (s *server) chosen(c echo.Context) (x selection, f choice, err error) {
	if f, err = readChoice(c); err != nil {
		return x, f, err
	}
	if len(f.runs) == 0 {
		return x, f, noneChosen(s.links.runs())
	}
	if x.acting, err = s.acting(c, f.deed); err != nil {
		return x, f, err
	}
	first, err := run.Get(c.Request().Context(), s.DB, x.viewer.sees(""), f.runs[0].Run)
	if err != nil {
		return x, f, err
	}
	x.project, x.runs = first.ProjectID, f.ids()
	slices.SortFunc(x.runs, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) // as they came to be: a Run's id begins with when
	return x, f, s.mayAct(c, x.acting, s.atProject(x.project))
}

func noneChosen(back string) problem {
	p := badForm(text.Of("No Run is selected."))
	p.next, p.back = text.Of("Tick the Runs that you mean, and send the form again."), templates.Link{Text: text.Of("To the Runs"), URL: back}
	return p
}

// askMany is the page before a verification for many Runs: which they are, and what of them is left out and why.
func (s *server) askMany(c echo.Context, x selection, again correction) error {
	list, err := s.Runs.AimBatch(c.Request().Context(), x.action, x.project, x.runs)
	if err != nil {
		return s.batchProblem(c, x.acting, s.atProject(x.project).back, err)
	}
	page := s.askPage(c, x.acting, x.project)
	if x.matched && !x.deed.stops() {
		page.Sentences = append(page.Sentences, templates.Sentence{Rest: text.Of("Of each retry family only the newest Run is here, if it failed: what was retried since is answered.")})
	}
	page.Missing = leftOut(len(x.runs)-len(list), x.project)
	var notes taskNotes
	for _, one := range list {
		row := s.selectedRow(one, x.viewer.nowMS)
		if one.Never != nil {
			page.Out = append(page.Out, row)
			continue
		}
		row.Field, row.Value, row.Checked = "run", one.Source.ID.String(), true
		page.Rows = append(page.Rows, row)
		notes.add(one.Source.TaskID, one.Note)
	}
	page.Tasks = notes.worth(x.deed)
	page.Name = s.title(x.deed, len(page.Rows), x.project)
	page.Page.Title = page.Name
	if x.more {
		page.More = text.Of("These are the newest %s; more match. A batch has no more than that: begin again for the rest.", runmgmt.MaxBatch)
	}
	if len(page.Rows) == 0 {
		page.Sentences, page.Verify = s.nothingToDo(x, len(page.Out)), nil
		return writeHTML(c, again.status(), templates.AskManyPage(page))
	}
	page.Form = again.in(templates.Form{Action: s.links.url(freezePath, nil), Button: text.Of("Verify, then look at it"), AsksReason: true, Label: x.many.why,
		Fields: []templates.Field{{Name: "action", Value: x.path}}, Back: page.Back})
	return writeHTML(c, again.status(), templates.AskManyPage(page))
}

// askPage is what every page before a verification of many Runs has.
func (s *server) askPage(c echo.Context, a acting, project string) templates.AskMany {
	page := templates.AskMany{
		Page: s.page(c, text.Text{}, runsPath, a.viewer.nowMS), Sentences: []templates.Sentence{a.many.consequence},
		Verify: verification(a.many), Back: templates.Link{Text: text.Of("Not now"), URL: s.links.runs("project", project)},
	}
	page.Picks = true
	if s.StepUp.Status() != nil {
		page.Warning = providerAway
	}
	return page
}

func (s *server) nothingToDo(x selection, refused int) []templates.Sentence {
	if refused > 0 {
		return []templates.Sentence{{Lead: x.many.never, Rest: text.Of("Below is why."), Tone: "bad"}}
	}
	return []templates.Sentence{{Lead: text.Of("There is none:"), Rest: text.Of("no Run of this filter waits for it. A failed Run that was retried since is answered.")}}
}

// title names the pages of a batch.
func (s *server) title(d deed, n int, project string) text.Text {
	if d.stops() {
		return text.Join(text.Data(" "), text.Count(n, "Stop 1 Run", "Stop %s Runs"), text.Of("of %s", project))
	}
	return text.Join(text.Data(" "), text.Count(n, "Retry 1 Run", "Retry %s Runs"), text.Of("of %s", project))
}

func leftOut(n int, project string) text.Text {
	if n == 0 {
		return text.Text{}
	}
	return text.Join(text.Data(" "), text.Count(n, "1 of the selected Runs is left out:", "%s of the selected Runs are left out:"),
		text.Of("a batch is of one Project, and this one is of %s.", project))
}

func (s *server) selectedRow(one runmgmt.Selected, nowMS int64) templates.BatchRow {
	row := s.batchRow(one.Source, nowMS)
	if one.Never != nil {
		row.Why = one.Never.Detail.Map(visible)
		return row
	}
	row.Unsafe = one.Note.Unsafe()
	return row
}

// batchRow is a Run of a batch, of which nothing is said yet.
func (s *server) batchRow(r run.Source, nowMS int64) templates.BatchRow {
	row := templates.BatchRow{ID: shortID(r.ID, s.links.run(r.ID)), Status: runStatuses[r.Status], Task: visible(r.TaskID), Created: instant(r.CreatedAtMS, nowMS)}
	if r.Retries > 0 {
		row.Retried = text.Count(r.Retries, "retried already, 1 time", "retried already, %s times")
	}
	return row
}

// freeze records what is selected and starts the step-up for it.
func (s *server) freeze(c echo.Context) error {
	x, f, err := s.chosen(c)
	if err != nil {
		return err
	}
	if again, ok := x.many.correct(f.reason, false); ok {
		return s.askMany(c, x, again)
	}
	who, _ := s.who(c, x.acting, uuid.Nil)
	b, err := s.Runs.Freeze(c.Request().Context(), runmgmt.Selection{Who: who, Action: x.action, ProjectID: x.project, Runs: x.runs, Words: f.reason})
	if refusal, ok := errors.AsType[*runmgmt.Refusal](err); ok && refusal.Reason == runmgmt.RunsRefused {
		return s.askMany(c, x, correction{wrong: refusal.Detail.Map(visible), reason: f.reason, code: http.StatusConflict})
	}
	if err != nil {
		return s.batchProblem(c, x.acting, s.atProject(x.project).back, err)
	}
	return s.verifyFrozen(c, x.acting, b, "")
}

// verifyFrozen starts the step-up for a batch, after which those at only are chosen of it.
func (s *server) verifyFrozen(c echo.Context, a acting, b runmgmt.Batch, only string) error {
	there, err := s.StepUp.Start(c.Request().Context(), s.Identity.Cookies.EnsureBinder(c.Response(), c.Request()), oidc.Ask{Session: a.session, Purpose: b.Purpose(),
		Words: b.Words, Client: a.client, Route: oidc.Route{Name: submissionName, IDs: map[string]string{"id": b.ID.String()}, Query: nonEmpty(url.Values{"only": {only}})}})
	if err != nil {
		return s.stepUpProblem(c, err, s.verifyBatchAgain(b.ID, only))
	}
	return s.goOn(c, there)
}
