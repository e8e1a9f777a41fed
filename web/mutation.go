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

// deed is one of the two things that may be done to a Run, in words, and where its pages are.
type deed struct {
	action policy.Permission
	path   string // of its pages, below the Run's
	say    deedWords
}

var (
	retrying = deed{policy.RetryRun, "retry", retryWords}
	stopping = deed{policy.StopRun, "stop", stopWords}
)

func (d deed) stops() bool { return d.action == policy.StopRun }

func (l links) deed(d deed, id uuid.UUID) string   { return l.run(id) + "/" + d.path }
func (l links) verify(d deed, id uuid.UUID) string { return l.deed(d, id) + "/verify" }

// managed is a Run that the session's user may do a deed to, as of this request.
type managed struct {
	deed
	session oidc.Session
	client  oidc.Client
	run     run.Detail
	viewer  viewer
}

// title names the pages of the deed.
func (m managed) title() text.Text {
	name := visible(m.run.TaskName)
	if m.stops() {
		return text.Of("Stop %s", name)
	}
	return text.Of("Retry %s", name)
}

func (m managed) actor() policy.Actor { return m.session.Actor(m.client) }

// managed reads the Run and what its user may do. A Run out of sight is none; that the role is missing is said, and
// audited where it was more than looking.
func (s *server) managed(c echo.Context, d deed) (managed, error) {
	ctx := c.Request().Context()
	m := managed{deed: d, client: s.client(c)}
	if s.wantsJSON(c) { // these are pages and forms of a browser's session
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
	if m.viewer, err = s.readViewer(c, m.session.UserID, policy.Read); err != nil {
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
func wholeID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s {
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
	p := newProblem(http.StatusForbidden, m.say.forbidden, mayNot(m.deed, d), nothing, text.Of("Ask an owner of the Project for the role."), nil)
	if d.Reason == policy.ProjectArchived {
		p.next = text.Of("Look at the Run; nothing of an archived Project changes.")
	}
	p.kind, p.back = string(runmgmt.Forbidden), s.backToRun(m)
	return p
}

// mayNot says why a role does not allow it.
func mayNot(d deed, decided policy.Decision) text.Text {
	switch {
	case decided.Reason == policy.ProjectArchived:
		return text.Of("The Project is archived, and read-only.")
	case d.stops():
		return text.Of("Stopping takes the role %s in this Project.", either(decided.Need))
	}
	return text.Of("Retrying takes the role %s in this Project.", either(decided.Need))
}

func (s *server) readOnly(m managed) problem {
	p := newProblem(http.StatusServiceUnavailable, text.Of("This replica is read-only"), readOnlyWords, nothing,
		text.Of("Open the console at a replica that has both, or tell your administrator."), nil)
	p.kind, p.back = "read_only", s.backToRun(m)
	return p
}

var readOnlyWords = text.Of("This replica has no run-manager connection or no step-up configured, so Runs can be neither retried nor stopped here.")

func (s *server) backToRun(m managed) templates.Link {
	return templates.Link{Text: text.Of("To the Run"), URL: s.links.run(m.run.ID)}
}

// who is the session's user with the proof that the browser shows, if it shows one.
func (s *server) who(c echo.Context, m managed) (runmgmt.Who, bool) {
	proof, hash, ok := s.StepUp.Shown(c.Request(), m.action, m.run.ID)
	return runmgmt.Who{Actor: m.actor(), SessionID: m.session.ID, ProofID: proof, CookieHash: hash}, ok
}
