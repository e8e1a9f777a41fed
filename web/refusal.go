package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/web/templates"
)

// refusalStatus is the status of each reason.
var refusalStatus = map[runmgmt.Reason]int{
	runmgmt.Invalid: http.StatusBadRequest, runmgmt.StepUpRequired: http.StatusForbidden, runmgmt.AuthenticationChanged: http.StatusForbidden,
	runmgmt.Forbidden: http.StatusForbidden, runmgmt.NotFound: http.StatusNotFound, runmgmt.AuthorizationChanged: http.StatusConflict,
	runmgmt.SourceChanged: http.StatusConflict, runmgmt.SourceNotTerminal: http.StatusConflict, runmgmt.SourceNotRetryable: http.StatusConflict,
	runmgmt.TaskDisabled: http.StatusConflict, runmgmt.PlanChanged: http.StatusConflict, runmgmt.MutationConflict: http.StatusConflict,
	runmgmt.RetriedMeanwhile: http.StatusConflict, runmgmt.NotStoppable: http.StatusConflict, runmgmt.RateLimited: http.StatusTooManyRequests,
}

var refusalTitles = map[runmgmt.Reason]string{
	runmgmt.Invalid: "The form is not complete", runmgmt.StepUpRequired: "Verify again", runmgmt.AuthenticationChanged: "Verify again",
	runmgmt.Forbidden: "Not allowed", runmgmt.AuthorizationChanged: "No longer allowed", runmgmt.SourceChanged: "The Run has changed",
	runmgmt.SourceNotTerminal: "The Run has not ended", runmgmt.SourceNotRetryable: "This Run cannot be retried", runmgmt.TaskDisabled: "The Task is disabled",
	runmgmt.PlanChanged: "What would run has changed", runmgmt.MutationConflict: "This form was sent before", runmgmt.RetriedMeanwhile: "Somebody else retried this Run",
	runmgmt.NotStoppable: "This Run cannot be stopped", runmgmt.RateLimited: "Too many retries",
}

// sentence makes what internal/runmgmt found one.
func sentence(found string) string {
	if found == "" {
		return ""
	}
	return strings.ToUpper(found[:1]) + visible(found[1:]) + "."
}

// mutationProblem words what a submission, or its preview, was answered with.
func (s *server) mutationProblem(c echo.Context, m managed, f submitted, err error) error {
	refusal, ok := errors.AsType[*runmgmt.Refusal](err)
	switch {
	case !ok && errors.Is(err, runmgmt.ErrOutcomeUnknown):
		return s.unknown(c, m, f, err)
	case !ok && errors.Is(err, runmgmt.ErrUnavailable):
		return s.unavailable(c, m, err)
	case !ok:
		return err
	case refusal.Reason == runmgmt.NotFound:
		return run.ErrNotFound
	}
	p := newProblem(refusalStatus[refusal.Reason], refusalTitles[refusal.Reason], sentence(refusal.Detail), "Nothing was "+m.done+".", nextFor(m.deed, refusal.Reason), refusal)
	p.kind, p.back, p.retryAfter = string(refusal.Reason), s.backToRun(m), roundUp(refusal.RetryAfter)
	p.pairs = s.freshFacts(m, f, refusal)
	p.form = s.formFor(c, m, f, refusal)
	return p
}

func nextFor(d deed, reason runmgmt.Reason) string {
	switch reason {
	case runmgmt.Invalid:
		return "Open the page again, and send its form."
	case runmgmt.StepUpRequired, runmgmt.AuthenticationChanged:
		return "Verify again; your reason is kept."
	case runmgmt.Forbidden, runmgmt.AuthorizationChanged:
		return "Ask an owner of the Project for the role that may do this."
	case runmgmt.SourceChanged, runmgmt.PlanChanged:
		return "Look at the fresh facts below, then verify again for them."
	case runmgmt.RetriedMeanwhile:
		return "Look at that retry first. Only if the Run should be retried nevertheless, say so."
	case runmgmt.MutationConflict:
		return "Look at the Run that was made. To " + d.verb + " again, begin again from the Run."
	case runmgmt.RateLimited:
		return "Send the form again when a slot is free."
	}
	return "Look at the Run; there is nothing to send again."
}

// freshFacts stand beside what was expected.
func (s *server) freshFacts(m managed, f submitted, r *runmgmt.Refusal) []templates.Pair {
	list := []templates.Pair{{Name: "Reason", Mono: string(r.Reason)}}
	if r.Retry != nil {
		list = append(list, templates.Pair{Name: "That retry", Link: templates.Link{Text: r.Retry.String(), URL: s.links.run(*r.Retry)}})
	}
	if r.Source == nil {
		return list
	}
	now := fmt.Sprintf("%s, version %d", runStatuses[r.Source.Status].Word, r.Source.Version)
	return append(list,
		templates.Pair{Name: "You saw", Note: seen(f), Mono: digest(f.plan)},
		templates.Pair{Name: "It is now", Note: now, Mono: digest(r.Source.ExecutionDigest)})
}

func seen(f submitted) string {
	if word := runStatuses[f.status].Word; word != "" {
		return fmt.Sprintf("%s, version %d", word, f.version)
	}
	return fmt.Sprintf("version %d", f.version)
}

// formFor is what may be sent after a refusal, if anything may.
func (s *server) formFor(c echo.Context, m managed, f submitted, r *runmgmt.Refusal) templates.Form {
	switch r.Reason {
	case runmgmt.StepUpRequired, runmgmt.AuthenticationChanged, runmgmt.SourceChanged, runmgmt.PlanChanged, runmgmt.Invalid:
		return s.verifyAgain(m.deed, m.run.ID, f.reason)
	case runmgmt.RetriedMeanwhile:
		again := set(s.formOf(c, s.links.deed(m.deed, m.run.ID)), "newest", r.Retry.String())
		again.Button = "Retry again anyway"
		return again
	case runmgmt.RateLimited:
		return s.formOf(c, s.links.deed(m.deed, m.run.ID))
	}
	return templates.Form{}
}

// unknown is the one answer that does not say whether anything happened. The form carries the mutation's id, so sending
// it again cannot do it twice.
func (s *server) unknown(c echo.Context, m managed, f submitted, err error) problem {
	p := newProblem(http.StatusServiceUnavailable, "The outcome is not known", "The database did not say whether this Run was "+m.done+".",
		"Whether anything was done is not known.", "Send the same form again: it is safe, for the same form is carried out once at most.", err)
	p.kind, p.retryAfter, p.form = "outcome_unknown", unavailableFor, s.formOf(c, s.links.deed(m.deed, m.run.ID))
	p.back = templates.Link{Text: "Did it happen?", URL: s.links.mutation(f.mutation)}
	return p
}

func (s *server) unavailable(c echo.Context, m managed, err error) problem {
	p := newProblem(http.StatusServiceUnavailable, "Unavailable", "The database could not be worked with in time.", "Nothing was "+m.done+".",
		"Send the same form again in a moment: it is carried out once at most.", err)
	p.kind, p.retryAfter, p.form, p.back = "unavailable", unavailableFor, s.resend(c), s.backToRun(m)
	return p
}
