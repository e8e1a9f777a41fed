package web

import (
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// viewer is who asks: what they may do, the Projects of which the route may tell them, and the database clock when they
// asked, by which everything on their page is judged. It is read for every request and never kept past it.
type viewer struct {
	access   policy.Access
	projects []policy.Binding
	nowMS    int64
}

// accessKey is where a request keeps what its user may do, for the navigation of its page.
const accessKey = "access"

// viewer reads what the session's user may do now. That they may do nowhere what the route needs is an error.
func (s *server) viewer(c echo.Context) (viewer, error) {
	session, err := oidc.Current(c.Request().Context())
	if err != nil {
		return viewer{}, err
	}
	needed := policy.Permission(s.routeOf(c).need)
	v, err := s.readViewer(c, session.UserID, needed)
	if err == nil && len(v.projects) == 0 {
		err = s.noRole(session, v.access, needed)
	}
	return v, err
}

// readViewer reads what a user may do, and in which Projects they may do what is needed; that may be none.
func (s *server) readViewer(c echo.Context, user uuid.UUID, needed policy.Permission) (v viewer, err error) {
	if v.access, err = s.accessOf(c, user); err != nil {
		return viewer{}, err
	}
	c.Set(accessKey, v.access)
	if !v.access.Active {
		return viewer{}, &oidc.Ended{Reason: string(policy.UserDisabled)} // since the session was read
	}
	v.projects, v.nowMS = v.access.Allowing(needed), v.access.NowMS
	return v, nil
}

// sees returns the ids of the viewer's Projects, restricted to one unless only is empty. A Project that does not exist
// and one that the viewer may not see both leave none.
func (v viewer) sees(only string) []string {
	ids := []string{}
	for _, p := range v.projects {
		if only == "" || p.ProjectID == only {
			ids = append(ids, p.ProjectID)
		}
	}
	return ids
}

// noRole tells somebody who is signed in, and may do nowhere what is needed, how that is granted.
func (s *server) noRole(session oidc.Session, a policy.Access, needed policy.Permission) problem {
	p := newProblem(http.StatusForbidden, text.Of("No role"), text.Of("You are signed in, but no Project has given you a role yet."), text.Of("Nothing was looked up."),
		text.Of("Send this command to whoever administers this console: they run it with the admin database URL. With the Project's id in place of PROJECT it lets you read there."), nil)
	p.kind, p.command = string(policy.NotVisible), grantCommand(session)
	p.pairs = []templates.Pair{{Name: text.Of("Issuer"), Mono: visible(session.Issuer)}, {Name: text.Of("Subject"), Mono: visible(session.Subject)}}
	p.back = templates.Link{Text: text.Of("Your account"), URL: s.links.url(profilePath, nil)}
	if len(a.Visible()) > 0 {
		p.title = text.Of("Your role is not enough")
		p.what, p.kind = text.Of("You may do this in none of your Projects."), string(policy.RoleMissing)
		p.next, p.command = text.Of("It takes the role %s. Ask whoever administers this console for one.", either(rolesWith(needed))), ""
	}
	return p
}

func rolesWith(p policy.Permission) []policy.Role {
	var roles []policy.Role
	for _, r := range policy.Roles() {
		if r.May(p) {
			roles = append(roles, r)
		}
	}
	return roles
}

// roleName is what r is called. Every language keeps the word that console grant takes.
func roleName(r policy.Role) text.Text {
	switch r {
	case policy.Owner:
		return text.Of("owner")
	case policy.Admin:
		return text.Of("admin")
	case policy.Operator:
		return text.Of("operator")
	case policy.Viewer:
		return text.Of("viewer")
	}
	return text.Data(string(r))
}

// either lists alternatives.
func either(list []policy.Role) text.Text {
	var parts []text.Text
	for _, x := range list {
		parts = append(parts, roleName(x))
	}
	if len(parts) == 0 {
		return text.Text{}
	}
	last := len(parts) - 1
	return text.Join(text.Of(" or "), text.Join(text.Of(", "), parts[:last]...), parts[last])
}

// grantCommand is what whoever administers the console runs to give the session's user a role. A subject that cannot be shown as it is, and so
// not be copied, is named by the user's id.
func grantCommand(session oidc.Session) string {
	who := "--subject " + quoted(session.Issuer) + " " + quoted(session.Subject)
	if visible(session.Issuer+session.Subject) != session.Issuer+session.Subject {
		who = "--user " + session.UserID.String()
	}
	return "console grant --project PROJECT --role " + string(policy.Viewer) + " " + who
}

// quoted is s as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
