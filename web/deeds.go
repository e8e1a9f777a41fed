package web

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// doneWords say what a submission came to, on the page that it led to.
var doneWords = map[string]text.Text{
	"retry made":   text.Of("This Run was made by your retry. It is a new Run; the one that it retries has not changed."),
	"retry before": text.Of("This Run was made when you sent the form the first time. Sending it again made nothing new."),
	"stop made":    text.Of("Your request to stop this Run is on record. Whoever executes it ends it."),
	"stop before":  text.Of("This Run was asked to stop when you sent the form the first time. Sending it again changed nothing."),
}

// done is for who submitted it alone: a link that somebody else opens says nothing of it.
func done(c echo.Context, d run.Detail) text.Text {
	q := c.QueryParams()
	session, err := oidc.Current(c.Request().Context())
	if err != nil {
		return text.Text{}
	}
	by := session.UserID.String()
	if q.Get("retry") != "" && (d.TriggeredBy == nil || *d.TriggeredBy != by) || q.Get("stop") != "" && !stoppedBy(d, by) {
		return text.Text{}
	}
	for _, name := range runQuery {
		if words := doneWords[name+" "+q.Get(name)]; !words.Empty() {
			return words
		}
	}
	return text.Text{}
}

// stoppedBy reports whether it was the user who asked the Run to stop.
func stoppedBy(d run.Detail, user string) bool {
	return slices.ContainsFunc(d.Events, func(e run.Event) bool {
		return e.Type == "run.cancel_requested" && e.ActorType == "user" && e.ActorID == user
	})
}

// deeds are what may be done to a Run now, and then what may not and why.
func (s *server) deeds(v viewer, d run.Detail) []templates.Deed {
	var list []templates.Deed
	for _, x := range []deed{retrying, stopping} {
		if row, ok := s.deed(v, d, x); ok {
			list = append(list, row)
		}
	}
	slices.SortStableFunc(list, func(a, b templates.Deed) int { return strings.Compare(b.Link.URL, a.Link.URL) })
	return list
}

// deed says nothing of stopping what has ended.
func (s *server) deed(v viewer, d run.Detail, x deed) (templates.Deed, bool) {
	state := runmgmt.InState(x.action, d.Status)
	decided := v.access.Decide(d.ProjectID, x.action)
	switch {
	case x.stops() && state != nil:
		return templates.Deed{}, false
	case state != nil && state.Reason == runmgmt.SourceNotTerminal:
		return templates.Deed{Why: text.Of("It can be retried once it has failed, timed out or been cancelled.")}, true
	case state != nil:
		return templates.Deed{Why: text.Join(text.Data(" "), x.say.never, state.Detail.Map(visible))}, true
	case x.stops() && d.CancelRequestedAtMS != nil:
		return templates.Deed{}, false
	case !decided.Allowed:
		return templates.Deed{Why: mayNot(x, decided)}, true
	case s.Runs == nil || s.StepUp == nil:
		return templates.Deed{Why: readOnlyWords}, true
	}
	row := templates.Deed{Link: templates.Link{Text: x.say.link, URL: s.links.deed(x, d.ID)}, Primary: !x.stops(), Hint: text.Of("Takes a fresh sign-in with a second factor.")}
	if s.StepUp.Status() != nil {
		row.Why = text.Of("The identity provider cannot be reached at present, so verifying may fail.")
	}
	return row, true
}

// auditOf is the newest of what was done about a Run, for who may read the audit.
func (s *server) auditOf(c echo.Context, v viewer, d run.Detail) ([]policy.AuditRecord, error) {
	if s.wantsJSON(c) || !v.access.Decide(d.ProjectID, policy.ReadAudit).Allowed {
		return nil, nil
	}
	page, err := policy.ListAudit(c.Request().Context(), s.DB, policy.AuditFilter{Scope: policy.Scope{Projects: []string{d.ProjectID}}, Run: d.ID}, nil, auditOnRun)
	return page.Events, err
}

const auditOnRun = 20
