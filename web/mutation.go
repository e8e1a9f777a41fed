package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/web/templates"
)

// deed is one of the two things that may be done to a Run, in words, and where its pages are.
type deed struct {
	action policy.Permission
	path   string // of its pages, below the Run's
	verb   string // "retry"
	doing  string // "retrying"
	done   string // "retried"
	next   string // the least surprising button
}

var (
	retrying = deed{policy.RetryRun, "retry", "retry", "retrying", "retried", "Retry this Run"}
	stopping = deed{policy.StopRun, "stop", "stop", "stopping", "asked to stop", "Stop this Run"}
)

func (l links) deed(d deed, id uuid.UUID) string   { return l.run(id) + "/" + d.path }
func (l links) verify(d deed, id uuid.UUID) string { return l.deed(d, id) + "/verify" }

func (d deed) title(name string) string { return strings.ToUpper(d.verb[:1]) + d.verb[1:] + " " + name }

// managed is a Run that the session's user may do a deed to, as of this request.
type managed struct {
	deed
	session oidc.Session
	client  oidc.Client
	run     run.Detail
	viewer  viewer
}

func (m managed) actor() policy.Actor { return m.session.Actor(m.client) }

// managed reads the Run and what its user may do. A Run out of sight is none; that the role is missing is said, and
// audited where it was more than looking.
func (s *server) managed(c echo.Context, d deed) (managed, error) {
	ctx := c.Request().Context()
	m := managed{deed: d, client: s.client(c)}
	if wantsJSON(c) { // these are pages and forms of a browser's session
		return m, echo.ErrUnsupportedMediaType
	}
	var err error
	if m.session, err = oidc.Current(ctx); err != nil {
		return m, err
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return m, err
	}
	if m.viewer, err = s.readViewer(ctx, m.session.UserID, policy.Read); err != nil {
		return m, err
	}
	if m.run, err = run.Get(ctx, s.DB, m.viewer.sees(""), id); err != nil {
		return m, err
	}
	if decided := m.viewer.access.Decide(m.run.ProjectID, d.action); !decided.Allowed {
		if err := s.auditForbidden(c, m, decided); err != nil {
			return m, err
		}
		return m, s.forbidden(m, decided)
	}
	if s.Runs == nil || s.StepUp == nil {
		return m, s.readOnly(m)
	}
	return m, nil
}

// wholeID reads an id as every link spells it.
func wholeID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.Nil, run.ErrNotFound
	}
	return id, nil
}

func (s *server) auditForbidden(c echo.Context, m managed, d policy.Decision) error {
	if c.Request().Method != http.MethodPost {
		return nil
	}
	b := d.Binding
	return policy.WriteAudit(c.Request().Context(), s.DB, policy.AuditEvent{Action: string(m.action), Outcome: policy.Denied, Reason: d.Reason, Actor: m.actor(),
		ProjectID: m.run.ProjectID, ProjectVersion: b.ProjectVersion, Role: b.Role, BindingVersion: b.Version, RunID: &m.run.ID, RunVersion: m.run.Version})
}

func (s *server) forbidden(m managed, d policy.Decision) problem {
	p := newProblem(http.StatusForbidden, "You may not "+m.verb+" this Run", mayNot(m.deed, d), nothing, "Ask an owner of the Project for the role.", nil)
	if d.Reason == policy.ProjectArchived {
		p.next = "Look at the Run; nothing of an archived Project changes."
	}
	p.kind, p.back = string(runmgmt.Forbidden), s.backToRun(m)
	return p
}

// mayNot says why a role does not allow it.
func mayNot(d deed, decided policy.Decision) string {
	if decided.Reason == policy.ProjectArchived {
		return "The Project is archived, and read-only."
	}
	return fmt.Sprintf("%s%s takes the role %s in this Project.", strings.ToUpper(d.doing[:1]), d.doing[1:], words(decided.Need))
}

func (s *server) readOnly(m managed) problem {
	p := newProblem(http.StatusServiceUnavailable, "This replica is read-only", readOnlyWords, nothing,
		"Open the console at a replica that has both, or tell your administrator.", nil)
	p.kind, p.back = "read_only", s.backToRun(m)
	return p
}

const readOnlyWords = "This replica has no run-manager connection or no step-up configured, so Runs can be neither retried nor stopped here."

func (s *server) backToRun(m managed) templates.Link {
	return templates.Link{Text: "To the Run", URL: s.links.run(m.run.ID)}
}

// who is the session's user with the proof that the browser shows, if it shows one.
func (s *server) who(c echo.Context, m managed) (runmgmt.Who, bool) {
	proof, hash, ok := s.StepUp.Shown(c.Request(), m.action, m.run.ID)
	return runmgmt.Who{Actor: m.actor(), SessionID: m.session.ID, ProofID: proof, CookieHash: hash}, ok
}

// The fields of the forms, which are sent back as they were when a database cannot be reached.
var formFields = []string{"mutation", "status", "version", "plan", "newest", "asked", "sure", "reason"}

// submitted is a form as it was sent. Reading it refuses what no page of the console sends.
type submitted struct {
	mutation uuid.UUID
	status   run.Status
	version  int64
	plan     string
	newest   *uuid.UUID
	unsure   bool // the second confirmation was asked for, and not given
	reason   string
}

func readForm(c echo.Context) (f submitted, err error) {
	r := c.Request()
	if err := r.ParseForm(); err != nil {
		return f, badForm("The form cannot be read.")
	}
	for _, name := range formFields {
		if len(r.PostForm[name]) > 1 {
			return f, badForm("The form has the field " + name + " more than once.")
		}
	}
	f.status, f.plan = run.Status(r.PostForm.Get("status")), r.PostForm.Get("plan")
	f.unsure = r.PostForm.Get("asked") != "" && r.PostForm.Get("sure") == ""
	f.reason = strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("reason"), "\r\n", "\n"))
	if strings.ContainsRune(f.reason, 0) || strings.ToValidUTF8(f.reason, "") != f.reason {
		return f, badForm("The reason is not text.")
	}
	f.mutation, _ = uuid.Parse(r.PostForm.Get("mutation"))             // the manager refuses what is missing
	f.version, _ = strconv.ParseInt(r.PostForm.Get("version"), 10, 64) // and what is no version of the Run
	if id, err := uuid.Parse(r.PostForm.Get("newest")); err == nil {
		f.newest = &id
	}
	return f, nil
}

func badForm(what string) problem {
	p := newProblem(http.StatusBadRequest, "Bad form", what, nothing, "Open the page again, and send its form.", nil)
	p.kind = string(runmgmt.Invalid)
	return p
}

// checkReason is what the manager will check, before the user leaves for the provider.
func checkReason(m managed, reason string) error {
	n := len([]rune(reason))
	switch {
	case reason == "":
		return badForm("A reason is missing: say why the Run is " + m.done + ".")
	case n > runmgmt.MaxWords:
		return badForm(fmt.Sprintf("The reason has %d characters; at most %d are kept.", n, runmgmt.MaxWords))
	}
	return nil
}

// resend is the form that was sent, for its sender to send again. It asks nothing of the database.
func (s *server) resend(c echo.Context) templates.Form {
	if c.Request().Method != http.MethodPost || c.Request().ParseForm() != nil {
		return templates.Form{}
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return templates.Form{}
	}
	for _, d := range []deed{retrying, stopping} {
		switch path := s.routeOf(c).path; path {
		case deedPath(d):
			return s.formOf(c, s.links.deed(d, id))
		case deedPath(d) + "/verify":
			return s.formOf(c, s.links.verify(d, id))
		}
	}
	return templates.Form{}
}

func deedPath(d deed) string { return "/runs/:id/" + d.path }

func (s *server) formOf(c echo.Context, action string) templates.Form {
	f := templates.Form{Action: action, Button: "Send again"}
	for _, name := range formFields {
		if values := c.Request().PostForm[name]; len(values) == 1 && strings.ToValidUTF8(values[0], "") == values[0] {
			f.Fields = append(f.Fields, templates.Field{Name: name, Value: values[0]})
		}
	}
	return f
}

// set replaces one field.
func set(f templates.Form, name, value string) templates.Form {
	var fields []templates.Field
	for _, x := range f.Fields {
		if x.Name != name {
			fields = append(fields, x)
		}
	}
	f.Fields = append(fields, templates.Field{Name: name, Value: value})
	return f
}

// verifyAgain leads to the provider with the reason kept, and editable.
func (s *server) verifyAgain(d deed, id uuid.UUID, reason string) templates.Form {
	return templates.Form{Action: s.links.verify(d, id), Button: "Verify again", AsksReason: true, Reason: reason}
}

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
