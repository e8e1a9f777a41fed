package web

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// refusalStatus is the status of each reason.
var refusalStatus = map[runmgmt.Reason]int{
	runmgmt.Invalid: http.StatusBadRequest, runmgmt.StepUpRequired: http.StatusForbidden, runmgmt.AuthenticationChanged: http.StatusForbidden,
	runmgmt.Forbidden: http.StatusForbidden, runmgmt.NotFound: http.StatusNotFound, runmgmt.AuthorizationChanged: http.StatusConflict,
	runmgmt.SourceChanged: http.StatusConflict, runmgmt.SourceNotTerminal: http.StatusConflict, runmgmt.SourceNotRetryable: http.StatusConflict,
	runmgmt.TaskDisabled: http.StatusConflict, runmgmt.PlanChanged: http.StatusConflict, runmgmt.MutationConflict: http.StatusConflict,
	runmgmt.RetriedMeanwhile: http.StatusConflict, runmgmt.NotStoppable: http.StatusConflict, runmgmt.RateLimited: http.StatusTooManyRequests,
	runmgmt.RunsRefused: http.StatusConflict, runmgmt.PauseChanged: http.StatusConflict,
}

var refusalTitles = map[runmgmt.Reason]text.Text{
	runmgmt.Invalid: text.Of("The form is not complete"), runmgmt.StepUpRequired: text.Of("Verify again"), runmgmt.AuthenticationChanged: text.Of("Verify again"),
	runmgmt.Forbidden: text.Of("Not allowed"), runmgmt.AuthorizationChanged: text.Of("No longer allowed"), runmgmt.SourceChanged: text.Of("The Run has changed"),
	runmgmt.SourceNotTerminal: text.Of("The Run has not ended"), runmgmt.SourceNotRetryable: text.Of("This Run cannot be retried"), runmgmt.TaskDisabled: text.Of("The Task is disabled"),
	runmgmt.PlanChanged: text.Of("What would run has changed"), runmgmt.MutationConflict: text.Of("This form was sent before"), runmgmt.RetriedMeanwhile: text.Of("Somebody else retried this Run"),
	runmgmt.NotStoppable: text.Of("This Run cannot be stopped"), runmgmt.RateLimited: text.Of("Too many retries"),
	runmgmt.RunsRefused: text.Of("Some of the Runs were refused"), runmgmt.PauseChanged: text.Of("Another pause holds the Trigger"),
}

// mutationProblem words what a submission, or its preview, was answered with.
func (s *server) mutationProblem(c echo.Context, m managed, f submitted, err error) error {
	refusal, p, ok := s.refusedAs(c, m.say, err)
	switch {
	case !ok:
		return err
	case refusal == nil && p.kind == outcomeUnknown:
		p.form, p.back = s.formOf(c, s.links.deed(m.deed, m.run.ID)), templates.Link{Text: text.Of("Did it happen?"), URL: s.links.mutation(f.mutation)}
		return p
	case refusal == nil:
		p.back = s.backToRun(m)
		return p
	case refusal.Reason == runmgmt.NotFound:
		return run.ErrNotFound
	}
	p.next, p.back = nextFor(m.say, refusal.Reason), s.backToRun(m)
	p.pairs = s.freshFacts(m, f, refusal)
	p.form = s.formFor(c, m, f, refusal)
	return p
}

// refusedAs words an error of the manager, whatever it was asked to do: a refusal, or that it is not known what came of it,
// or that it could not be asked. Of any other it reports false.
func (s *server) refusedAs(c echo.Context, say deedWords, err error) (refusal *runmgmt.Refusal, p problem, ok bool) {
	if refusal, ok = errors.AsType[*runmgmt.Refusal](err); ok {
		p = newProblem(refusalStatus[refusal.Reason], refusalTitles[refusal.Reason], refusal.Detail.Map(visible), say.notDone, nextFor(say, refusal.Reason), refusal)
		p.kind, p.retryAfter = string(refusal.Reason), roundUp(refusal.RetryAfter)
		return refusal, p, true
	}
	switch {
	case errors.Is(err, runmgmt.ErrOutcomeUnknown):
		return nil, s.unknown(c, say, err), true
	case errors.Is(err, runmgmt.ErrUnavailable):
		return nil, s.unavailable(c, say, err), true
	}
	return nil, problem{}, false
}

const outcomeUnknown = "outcome_unknown"

// refusedFor reports whether err is a refusal for that reason.
func refusedFor(err error, reason runmgmt.Reason) bool {
	refusal, ok := errors.AsType[*runmgmt.Refusal](err)
	return ok && refusal.Reason == reason
}

func nextFor(say deedWords, reason runmgmt.Reason) text.Text {
	switch reason {
	case runmgmt.Invalid:
		return text.Of("Open the page again, and send its form.")
	case runmgmt.StepUpRequired, runmgmt.AuthenticationChanged:
		return text.Of("Verify again; your reason is kept.")
	case runmgmt.Forbidden, runmgmt.AuthorizationChanged:
		return text.Of("Ask whoever administers this console for the role that may do this.")
	case runmgmt.SourceChanged, runmgmt.PlanChanged:
		return text.Of("Look at the fresh facts below, then verify again for them.")
	case runmgmt.RetriedMeanwhile:
		return text.Of("Look at that retry first. Only if the Run should be retried nevertheless, say so.")
	case runmgmt.MutationConflict:
		return say.beginAgain
	case runmgmt.RateLimited:
		return text.Of("Send the form again when a slot is free.")
	case runmgmt.PauseChanged:
		return text.Of("Look at the Schedule: who holds it now, and why.")
	}
	return text.Of("Look at the Run; there is nothing to send again.")
}

// freshFacts stand beside what was expected.
func (s *server) freshFacts(m managed, f submitted, r *runmgmt.Refusal) []templates.Pair {
	list := []templates.Pair{{Name: text.Of("Reason"), Mono: string(r.Reason)}}
	if r.Retry != nil {
		list = append(list, templates.Pair{Name: text.Of("That retry"), Link: templates.Link{Text: text.Data(r.Retry.String()), URL: s.links.run(*r.Retry)}})
	}
	if r.Source == nil {
		return list
	}
	now := text.Of("%s, version %s", runStatuses[r.Source.Status].Word, r.Source.Version)
	return append(list,
		templates.Pair{Name: text.Of("You saw"), Note: seen(f), Mono: digest(f.plan)},
		templates.Pair{Name: text.Of("It is now"), Note: now, Mono: digest(r.Source.ExecutionDigest)})
}

func seen(f submitted) text.Text {
	if known, ok := runStatuses[f.status]; ok {
		return text.Of("%s, version %s", known.Word, f.version)
	}
	return text.Of("version %s", f.version)
}

// formFor is what may be sent after a refusal, if anything may.
func (s *server) formFor(c echo.Context, m managed, f submitted, r *runmgmt.Refusal) templates.Form {
	switch r.Reason {
	case runmgmt.StepUpRequired, runmgmt.AuthenticationChanged, runmgmt.SourceChanged, runmgmt.PlanChanged, runmgmt.Invalid:
		return s.verifyAgain(m.deed, m.run.ID, f.reason)
	case runmgmt.RetriedMeanwhile:
		again := set(s.formOf(c, s.links.deed(m.deed, m.run.ID)), "newest", r.Retry.String())
		again.Button = text.Of("Retry again anyway")
		return again
	case runmgmt.RateLimited:
		return s.formOf(c, s.links.deed(m.deed, m.run.ID))
	}
	return templates.Form{}
}

// unknown is the one answer that does not say whether anything happened. The form carries what makes it the same, so
// sending it again cannot do it twice.
func (s *server) unknown(c echo.Context, say deedWords, err error) problem {
	p := newProblem(http.StatusServiceUnavailable, text.Of("The outcome is not known"), say.unknown,
		text.Of("Whether anything was done is not known."), text.Of("Send the same form again: it is safe, for the same form is carried out once at most."), err)
	p.kind, p.retryAfter, p.form = outcomeUnknown, unavailableFor, s.resend(c)
	return p
}

func (s *server) unavailable(c echo.Context, say deedWords, err error) problem {
	p := newProblem(http.StatusServiceUnavailable, text.Of("Unavailable"), text.Of("The database could not be worked with in time."), say.notDone,
		text.Of("Send the same form again in a moment: it is carried out once at most."), err)
	p.kind, p.retryAfter, p.form = "unavailable", unavailableFor, s.resend(c)
	return p
}
