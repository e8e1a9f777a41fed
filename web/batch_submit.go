package web

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	submissionPath = "/batches/:id/submit"
	submissionName = "submission"
)

// ownBatch is a batch that the session's user has frozen, and may submit or verify for.
type ownBatch struct {
	acting
	batch runmgmt.Batch
	view  runmgmt.BatchView
}

// ownBatch reads the batch that the address names. Somebody else's is none.
func (s *server) ownBatch(c echo.Context) (o ownBatch, err error) {
	if o.acting, err = s.acting(c, retrying); err != nil {
		return o, err
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return o, noBatch(err)
	}
	ctx := c.Request().Context()
	if o.view, err = runmgmt.ReadBatch(ctx, s.DB, o.viewer.sees(""), o.session.UserID, id); err != nil {
		return o, noBatch(err)
	}
	if o.deed, _ = deedOf(o.view.Action); o.view.UserID != o.session.UserID {
		return o, noBatch(run.ErrNotFound)
	}
	if err := s.mayAct(c, o.acting, aim{project: o.view.ProjectID, back: s.toBatch(id)}); err != nil {
		return o, err
	}
	who, _ := s.who(c, o.acting, id)
	if o.batch, err = s.Runs.Frozen(ctx, who, id); errors.Is(err, runmgmt.ErrUnavailable) {
		return o, s.batchProblem(c, o.acting, s.toBatch(id), err)
	}
	return o, noBatch(err)
}

func (s *server) toBatch(id uuid.UUID) templates.Link {
	return templates.Link{Text: text.Of("To the batch"), URL: s.links.batch(id)}
}

// noBatch words that there is no such batch. Any other error stays as it is.
func noBatch(err error) error {
	if !errors.Is(err, run.ErrNotFound) {
		return err
	}
	return newProblem(http.StatusNotFound, text.Of("No such batch"), text.Of("There is no batch with this id in the Projects you may see, or it is not yours to submit."),
		nothing, text.Of("Check the id, or select the Runs anew."), err)
}

// shown is how a submission is shown: which Runs are chosen of it, what is wrong with what was sent, and which of its Runs
// were refused.
type shown struct {
	only    subset
	refused map[uuid.UUID]*runmgmt.Refusal
	found   text.Text
	code    int
}

// review is the preview of a batch for who shows a good proof for it, and before that the way to one.
func (s *server) review(c echo.Context) error {
	q, err := query(c, "only")
	if err != nil {
		return err
	}
	o, err := s.ownBatch(c)
	if err != nil {
		return err
	}
	if o.batch.SubmittedAtMS != nil {
		return c.Redirect(http.StatusSeeOther, s.links.batch(o.batch.ID))
	}
	only, ok := parsePlaces(q.Get("only"), o.view.Members)
	if !ok {
		return badQuery(text.Of("The parameter %s names what is no place in the batch.", "only"))
	}
	return s.showSubmission(c, o, shown{only: only, code: http.StatusOK})
}

func (s *server) showSubmission(c echo.Context, o ownBatch, x shown) error {
	who, ok := s.who(c, o.acting, o.batch.ID)
	if !ok {
		return s.askFrozen(c, o, x)
	}
	p, err := s.Runs.PreviewBatch(c.Request().Context(), who, o.batch.ID)
	if refusal, ok := errors.AsType[*runmgmt.Refusal](err); ok && unproved(refusal) {
		x.found = refusal.Detail
		return s.askFrozen(c, o, x)
	}
	if err != nil {
		return s.batchProblem(c, o.acting, s.toBatch(o.batch.ID), err)
	}
	return writeHTML(c, x.code, templates.PreviewManyPage(s.previewManyPage(c, o, p, x)))
}

// unproved reports whether another verification is what it takes.
func unproved(r *runmgmt.Refusal) bool {
	return r.Reason == runmgmt.StepUpRequired || r.Reason == runmgmt.AuthenticationChanged
}

// askFrozen is the page before a verification, or another one, for what is frozen already. Its reason stands.
func (s *server) askFrozen(c echo.Context, o ownBatch, x shown) error {
	var ids []uuid.UUID
	for _, m := range o.view.Members {
		if x.only.has(m.RunID) {
			ids = append(ids, m.RunID)
		}
	}
	list, err := s.Runs.AimBatch(c.Request().Context(), o.action, o.view.ProjectID, ids)
	if err != nil {
		return s.batchProblem(c, o.acting, s.toBatch(o.batch.ID), err)
	}
	page := s.askPage(c, o.acting, o.view.ProjectID)
	page.Name = s.title(o.deed, len(list), o.view.ProjectID)
	page.Page.Title, page.Found = page.Name, x.found.Map(visible)
	var notes taskNotes
	for _, one := range list {
		page.Rows = append(page.Rows, s.selectedRow(one, o.viewer.nowMS))
		notes.add(one.Source.TaskID, one.Note)
	}
	page.Tasks = notes.worth(o.deed)
	page.Reason = linked(o.batch.Words)
	page.Form = s.verifyBatchAgain(o.batch.ID, x.only.places(o.view.Members))
	page.Form.Button, page.Form.Back = text.Of("Verify, then look at it"), page.Back
	return writeHTML(c, x.code, templates.AskManyPage(page))
}

// chosenOf is a batch of one's own and the form that was sent for it.
func (s *server) chosenOf(c echo.Context) (o ownBatch, f choice, err error) {
	if o, err = s.ownBatch(c); err == nil {
		f, err = readChoice(c)
	}
	return o, f, err
}

// verifyBatch starts another step-up for a batch.
func (s *server) verifyBatch(c echo.Context) error {
	o, f, err := s.chosenOf(c)
	if err != nil {
		return err
	}
	if _, ok := parsePlaces(f.only, o.view.Members); !ok {
		return badForm(text.Of("The parameter %s names what is no place in the batch.", "only"))
	}
	return s.verifyFrozen(c, o.acting, o.batch, f.only)
}

// submitBatch does it, or says of each Run why not.
func (s *server) submitBatch(c echo.Context) error {
	o, f, err := s.chosenOf(c)
	if err != nil {
		return err
	}
	chosen := subsetOf(f.ids())
	if f.unsure {
		return s.showSubmission(c, o, shown{only: chosen, found: text.Join(text.Data(" "), o.many.unsure, o.many.notDone), code: http.StatusBadRequest})
	}
	who, _ := s.who(c, o.acting, o.batch.ID) // an exact replay needs no proof
	made, err := s.Runs.Submit(c.Request().Context(), runmgmt.BatchForm{Who: who, BatchID: o.batch.ID, Runs: f.runs})
	if err != nil {
		return s.batchRefused(c, o, chosen, err)
	}
	s.StepUp.Forget(c.Response(), o.action, o.batch.ID)
	how := "made"
	if made.Replayed {
		how = "before"
	}
	return c.Redirect(http.StatusSeeOther, withQuery(s.links.batch(o.batch.ID), url.Values{o.path: {how}}))
}

// batchRefused shows the submission again with what was refused of it, where it can be sent without that.
func (s *server) batchRefused(c echo.Context, o ownBatch, chosen subset, err error) error {
	refusal, ok := errors.AsType[*runmgmt.Refusal](err)
	if !ok {
		return s.batchProblem(c, o.acting, s.toBatch(o.batch.ID), err)
	}
	x := shown{only: chosen, found: text.Join(text.Data(" "), refusal.Detail, o.many.notDone), code: refusalStatus[refusal.Reason]}
	switch {
	case unproved(refusal):
		x.found = refusal.Detail
		return s.askFrozen(c, o, x)
	case refusal.Reason == runmgmt.RunsRefused:
		x.refused = map[uuid.UUID]*runmgmt.Refusal{}
		for _, one := range refusal.Runs {
			x.refused[one.Run] = one.Refusal
		}
		return s.showSubmission(c, o, x)
	case refusal.Reason == runmgmt.RateLimited:
		setRetryAfter(c, roundUp(refusal.RetryAfter))
		return s.showSubmission(c, o, x)
	case refusal.Reason == runmgmt.Invalid:
		return s.showSubmission(c, o, x)
	}
	return s.batchProblem(c, o.acting, s.toBatch(o.batch.ID), err)
}

// batchProblem words what there is no form to show again for.
func (s *server) batchProblem(c echo.Context, a acting, back templates.Link, err error) error {
	refusal, p, ok := s.refusedAs(c, a.many, err)
	switch {
	case !ok:
		return err
	case refusal != nil && refusal.Reason == runmgmt.NotFound:
		return noBatch(run.ErrNotFound)
	}
	p.back = back
	return p
}
