package web

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// deed is one of the things that may be done to a Run, to many, or to a Trigger, in words, and where its pages are.
type deed struct {
	action policy.Permission
	path   string    // of its pages, below the Run's
	say    deedWords // of one Run
	many   deedWords // of anything else
}

var (
	retrying = deed{policy.RetryRun, "retry", retryWords, retryManyWords}
	stopping = deed{policy.StopRun, "stop", stopWords, stopManyWords}
	pausing  = deed{action: policy.PauseTrigger, path: "pause", many: pauseWords}
	resuming = deed{action: policy.PauseTrigger, path: "resume", many: resumeWords}
)

// deedOf is the deed on Runs that has a name in forms and addresses, or an action.
func deedOf[T ~string](name T) (deed, bool) {
	for _, d := range []deed{retrying, stopping} {
		if string(name) == d.path || policy.Permission(name) == d.action {
			return d, true
		}
	}
	return deed{}, false
}

func (d deed) stops() bool { return d.action == policy.StopRun }

func (l links) deed(d deed, id uuid.UUID) string   { return l.run(id) + "/" + d.path }
func (l links) verify(d deed, id uuid.UUID) string { return l.deed(d, id) + "/verify" }

// acting is somebody who wants to do a deed, as of this request.
type acting struct {
	deed
	session oidc.Session
	client  oidc.Client
	viewer  viewer
}

func (a acting) actor() policy.Actor { return a.session.Actor(a.client) }

// who is the actor with the proof for a Run or a batch that the browser shows, if it shows one.
func (s *server) who(c echo.Context, a acting, subject uuid.UUID) (runmgmt.Who, bool) {
	proof, hash, ok := s.StepUp.Shown(c.Request(), a.action, subject)
	return runmgmt.Who{Actor: a.actor(), SessionID: a.session.ID, ProofID: proof, CookieHash: hash}, ok
}

// acting reads who wants to do the deed.
func (s *server) acting(c echo.Context, d deed) (a acting, err error) {
	a.deed, a.client = d, s.client(c)
	if s.wantsJSON(c) { // these are pages and forms of a browser's session
		return a, echo.ErrUnsupportedMediaType
	}
	if a.session, err = oidc.Current(c.Request().Context()); err != nil {
		return a, err
	}
	a.viewer, err = s.readViewer(c, a.session.UserID, policy.Read)
	return a, err
}

// aim is what a deed would be done to: in a Project, to a Run if it is one, and where somebody goes who may not.
type aim struct {
	project string
	run     *run.Detail
	back    templates.Link
}

// mayAct says that the role is missing, and audits it where it was more than looking, or that this replica can do nothing.
func (s *server) mayAct(c echo.Context, a acting, at aim) error {
	if decided := a.viewer.access.Decide(at.project, a.action); !decided.Allowed {
		if err := s.auditForbidden(c, a, at, decided); err != nil {
			return err
		}
		return forbidden(a.deed, at, decided)
	}
	if s.Runs == nil || s.StepUp == nil && a.action != policy.PauseTrigger {
		return readOnly(at)
	}
	return nil
}

// managed is a Run that the session's user may do a deed to, as of this request.
type managed struct {
	acting
	run run.Detail
}

// title names the pages of the deed.
func (m managed) title() text.Text {
	name := visible(m.run.TaskName)
	if m.stops() {
		return text.Of("Stop %s", name)
	}
	return text.Of("Retry %s", name)
}

// managed reads the Run and what its user may do. A Run out of sight is none.
func (s *server) managed(c echo.Context, d deed) (m managed, err error) {
	if m.acting, err = s.acting(c, d); err != nil {
		return m, err
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return m, err
	}
	if m.run, err = run.Get(c.Request().Context(), s.DB, m.viewer.sees(""), id); err != nil {
		return m, err
	}
	return m, s.mayAct(c, m.acting, aim{m.run.ProjectID, &m.run, s.backToRun(m)})
}

// wholeID reads an id as every link spells it.
func wholeID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s {
		return uuid.Nil, run.ErrNotFound
	}
	return id, nil
}

func (s *server) auditForbidden(c echo.Context, a acting, at aim, d policy.Decision) error {
	if c.Request().Method != http.MethodPost {
		return nil
	}
	b := d.Binding
	e := policy.AuditEvent{Action: string(a.action), Outcome: policy.Denied, Reason: d.Reason, Actor: a.actor(),
		ProjectID: at.project, ProjectVersion: b.ProjectVersion, Role: b.Role, BindingVersion: b.Version}
	if at.run != nil {
		e.RunID, e.RunVersion = &at.run.ID, at.run.Version
	}
	return policy.WriteAudit(c.Request().Context(), s.DB, e)
}

func forbidden(d deed, at aim, decided policy.Decision) problem {
	title := d.say.forbidden
	if at.run == nil {
		title = d.many.forbidden
	}
	p := newProblem(http.StatusForbidden, title, mayNot(d, decided), nothing, text.Of("Ask whoever administers this console for the role."), nil)
	if decided.Reason == policy.ProjectArchived {
		p.next = text.Of("Look at the Run; nothing of an archived Project changes.")
	}
	p.kind, p.back = string(runmgmt.Forbidden), at.back
	return p
}

// mayNot says why a role does not allow it.
func mayNot(d deed, decided policy.Decision) text.Text {
	switch {
	case decided.Reason == policy.ProjectArchived:
		return text.Of("The Project is archived, and read-only.")
	case d.action == policy.PauseTrigger:
		return text.Of("Pausing and resuming take the role %s in this Project.", either(decided.Need))
	case d.stops():
		return text.Of("Stopping takes the role %s in this Project.", either(decided.Need))
	}
	return text.Of("Retrying takes the role %s in this Project.", either(decided.Need))
}

func readOnly(at aim) problem {
	p := newProblem(http.StatusServiceUnavailable, text.Of("This replica is read-only"), readOnlyWords, nothing,
		text.Of("Open the console at a replica that has both, or tell your administrator."), nil)
	p.kind, p.back = "read_only", at.back
	return p
}

var readOnlyWords = text.Of("This replica has no run-manager connection or no step-up configured, so Runs can be neither retried nor stopped here.")

func (s *server) backToRun(m managed) templates.Link {
	return templates.Link{Text: text.Of("To the Run"), URL: s.links.run(m.run.ID)}
}
