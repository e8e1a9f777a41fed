package web

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const profilePath = "/account"

// userName is what a session's user is called.
func userName(session oidc.Session) string {
	return shorten(visible(cmp.Or(session.Name, session.Email, session.Subject)), listName)
}

// profileFacts is what a user is told about themselves, before it is worded.
type profileFacts struct {
	session oidc.Session
	access  policy.Access
	devices []oidc.Device
	proofs  []policy.LiveProof
}

// profile shows who is signed in, what they may do, and where else they are signed in. It needs no role: it is where one
// learns that one has none.
func (s *server) profile(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	session, err := oidc.Current(ctx)
	if err != nil {
		return err
	}
	f := profileFacts{session: session}
	if f.access, err = policy.ReadAccess(ctx, s.DB, session.UserID); err != nil {
		return err
	}
	c.Set(accessKey, f.access)
	if f.devices, err = s.Identity.Sessions.List(ctx, session.UserID); err != nil {
		return err
	}
	if f.proofs, err = policy.LiveProofs(ctx, s.DB, session.UserID); err != nil {
		return err
	}
	return writeHTML(c, http.StatusOK, templates.ProfilePage(s.profilePage(c, f)))
}

func (s *server) profilePage(c echo.Context, f profileFacts) templates.Profile {
	now := f.session.NowMS
	page := templates.Profile{
		Page: s.page(c, text.Of("Your account"), "", now), Name: userName(f.session), Identity: identityPairs(f.session),
		SignOut: s.links.url(signOutPath, nil), Everywhere: s.links.url(signOutEverywherePath, nil),
		NoRoles: templates.Empty{Why: text.Of("No Project has given you a role yet."), What: text.Of("Send the command above to whoever administers this console.")},
	}
	for _, id := range f.access.Visible() {
		page.Roles = append(page.Roles, s.projectRole(f.access.Bindings[id]))
	}
	page.Proofs, page.Links = s.liveProofs(f.proofs, now), s.profileLinks(f.access)
	if len(page.Roles) == 0 {
		page.Command = grantCommand(f.session)
	}
	for _, d := range f.devices {
		page.Sessions = append(page.Sessions, device(d, f.session, now))
	}
	return page
}

// liveProofs are what the user has verified for and not yet done.
func (s *server) liveProofs(list []policy.LiveProof, nowMS int64) []templates.LiveProof {
	var rows []templates.LiveProof
	for _, p := range list {
		d, known := deedOf(p.Action)
		if !known {
			continue
		}
		row := templates.LiveProof{By: levels[p.Level], Ends: instant(nowMS+p.LeftMS, nowMS)}
		if len(p.Items) > 0 {
			id := p.Items[0].Run
			row.What = templates.Link{Text: provenFor(d, shortID(id, "").Short), URL: s.links.deed(d, id)}
		} else {
			row.What = templates.Link{Text: text.Of("%s: a batch", d.many.button), URL: s.links.submission(p.Batch, "")}
		}
		rows = append(rows, row)
	}
	return rows
}

// provenFor says what a verification is for.
func provenFor(d deed, run string) text.Text {
	if d.action == policy.StopRun {
		return text.Of("stopping Run %s", run)
	}
	return text.Of("retrying Run %s", run)
}

// profileLinks are pages that only some may open.
func (s *server) profileLinks(a policy.Access) []templates.Link {
	for _, id := range a.Visible() {
		if a.Decide(id, policy.ReadAudit).Allowed {
			return []templates.Link{{Text: text.Of("Audit"), URL: s.links.url(auditPath, nil)}, {Text: text.Of("Step-up test"), URL: s.links.url(stepUpTestPath, nil)}}
		}
	}
	return nil
}

func identityPairs(session oidc.Session) []templates.Pair {
	list := []templates.Pair{{Name: text.Of("Issuer"), Mono: visible(session.Issuer)}, {Name: text.Of("Subject"), Mono: visible(session.Subject)},
		{Name: text.Of("User"), Mono: session.UserID.String()}}
	if session.Email != "" {
		verified := text.Of("not verified by the issuer, and so proves nothing")
		if session.EmailVerified {
			verified = text.Of("verified by the issuer")
		}
		list = append(list, templates.Pair{Name: text.Of("E-mail"), Link: templates.Link{Text: text.Data(visible(session.Email))}, Note: verified, Tone: "soft"})
	}
	return append(list, templates.Pair{Name: text.Of("Signed in with"), Note: origins[session.Origin]})
}

// origins say how a session began. None is more than a single factor.
var origins = map[oidc.Origin]text.Text{
	oidc.OriginOIDC:         text.Of("the identity provider"),
	oidc.OriginProxyJWT:     text.Of("the sign-in proxy, by its signed word"),
	oidc.OriginProxyHeaders: text.Of("the sign-in proxy, by its headers"),
}

func (s *server) projectRole(b policy.Binding) templates.Role {
	r := templates.Role{Project: templates.Link{Text: text.Data(shorten(visible(b.ProjectName), listName)), URL: s.links.runs("project", b.ProjectID)}, ID: b.ProjectID, Role: roleName(b.Role), May: allows(b.Role)}
	if !b.ProjectActive {
		r.Note, r.May = text.Of("archived: read-only"), allows(policy.Viewer)
	}
	return r
}

// allows says what a role may.
func allows(r policy.Role) text.Text {
	parts := []text.Text{text.Of("read")}
	for _, x := range []struct {
		permission policy.Permission
		words      text.Text
	}{{policy.RetryRun, text.Of("retry")}, {policy.StopRun, text.Of("stop")}, {policy.PauseTrigger, text.Of("pause Triggers")},
		{policy.ReadAudit, text.Of("read the audit")}} {
		if r.May(x.permission) {
			parts = append(parts, x.words)
		}
	}
	return text.Join(text.Of(", "), parts...)
}

func device(d oidc.Device, current oidc.Session, nowMS int64) templates.Device {
	row := templates.Device{Agent: text.Of("unknown"), Where: text.Data(d.Peer), Began: instant(d.CreatedAtMS, nowMS), Seen: instant(d.LastSeenAtMS, nowMS),
		Ends: instant(min(d.ExpiresAtMS, d.LastSeenAtMS+d.IdleMS), nowMS), Current: d.ID == current.ID}
	if d.UserAgent != "" {
		row.Agent = text.Data(shorten(visible(d.UserAgent), listText))
	}
	if d.Claimed != "" {
		row.Where = text.Of("%s by way of %s", d.Claimed, d.Peer)
	}
	return row
}
