package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const assertedKey = "asserted"

// asserted is what the proxy in front says of who is at the browser.
type asserted struct {
	identity oidc.Identity
	err      error
}

// identify reads what a proxy says of its user, and takes every header that could say so away.
func (s *server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.routeOf(c).need == machine {
			return next(c)
		}
		i, err := s.Identity.Proxy.Identify(c.Request())
		c.Set(assertedKey, asserted{i, err})
		return next(c)
	}
}

// client is where the request comes from, for limits and the audit.
func (s *server) client(c echo.Context) oidc.Client {
	peer, claimed := s.Identity.Trusted.ClientAddress(c.Request())
	return oidc.Client{Peer: peer, Claimed: claimed, UserAgent: c.Request().UserAgent(), RequestID: requestID(c)}
}

// loadSession reads the session of every request that could have one.
func (s *server) loadSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.routeOf(c).need == machine {
			return next(c)
		}
		access := s.ahead(c)
		c.Set(aheadKey, access)
		ctx, err := s.Identity.Sessions.Load(c.Request(), true, access)
		if err == nil && s.Identity.Proxy.Enforced() {
			ctx, err = s.fromProxy(c, ctx)
		}
		if err != nil {
			return err
		}
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// aheadKey is where a request keeps what its user may do, if that was read with the session.
const aheadKey = "access read with the session"

// ahead is where to put what the user may do, if the request asks for that at once. One that changes something, or waits for
// the identity provider first, reads it when it is needed.
func (s *server) ahead(c echo.Context) *policy.Access {
	r := s.routeOf(c)
	if r.method != http.MethodGet || r.provider || r.need.open() || r.need == signedIn {
		return nil
	}
	return new(policy.Access)
}

// accessOf reads what a user may do, or takes what was read with the session, which it does only once: a stream reads it anew
// each time.
func (s *server) accessOf(c echo.Context, user uuid.UUID) (policy.Access, error) {
	ahead, _ := c.Get(aheadKey).(*policy.Access)
	c.Set(aheadKey, nil)
	if ahead != nil && ahead.UserID == user {
		return *ahead, nil
	}
	return policy.ReadAccess(c.Request().Context(), s.DB, user)
}

// fromProxy holds the session to the proxy's word. A session begins with a page that somebody opens; that of an open
// route may do without.
func (s *server) fromProxy(c echo.Context, ctx context.Context) (context.Context, error) {
	said := c.Get(assertedKey).(asserted)
	if said.err != nil {
		return nil, said.err
	}
	open := s.routeOf(c).need.open()
	_, none := oidc.Current(ctx)
	if none != nil && open {
		return ctx, nil
	}
	begins := s.isVisit(c)
	if none != nil && begins {
		if err := s.takeOne(c); err != nil {
			return nil, err
		}
	}
	return s.Identity.Sessions.FromProxy(ctx, c.Response(), said.identity, s.client(c), begins, s.Log)
}

// authenticate lets nobody signed out past, unless the route is open. Somebody who opened a page is led to sign in and
// back; a form, a script or a client is told.
func (s *server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		_, err := oidc.Current(c.Request().Context())
		switch {
		case err == nil || s.routeOf(c).need.open():
			return next(c)
		case !s.isVisit(c):
			return s.withWords(c, err)
		case isFramed(c.Request()):
			return s.openAtTop(c)
		}
		s.keepGoing(c)
		return c.Redirect(http.StatusSeeOther, s.links.url(signInPath, nil))
	}
}

// withWords keeps what somebody wrote whose session ended before the form was sent: it stands on the page, to be copied.
func (s *server) withWords(c echo.Context, err error) error {
	ended, ok := errors.AsType[*oidc.Ended](err)
	if !ok || c.Request().Method != http.MethodPost || c.Request().ParseForm() != nil {
		return err
	}
	reason := strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return err
	}
	p := s.signedOutProblem(ended)
	p.pairs = []templates.Pair{{Name: text.Of("You wrote"), Note: text.Data(visible(shorten(reason, runmgmt.MaxWords)))}}
	return p
}

// isVisit reports whether the request is for a page that somebody opens, and not a form's, a script's or a client's.
// Browsers say so; where nothing does, a GET that asks for no JSON is one.
func (s *server) isVisit(c echo.Context) bool {
	r := c.Request()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || s.wantsJSON(c) {
		return false
	}
	return isTop(r) || isFramed(r)
}

// isTop reports whether the whole window shows the answer.
func isTop(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return dest == "" || dest == "document"
}

func isFramed(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "iframe", "frame", "embed", "object":
		return true
	}
	return false
}

// openAtTop is what a frame shows whose user is signed out, or whose parent is of another site: signing in is never done
// in a frame.
func (s *server) openAtTop(c echo.Context) error {
	there := s.links.url("/", nil)
	if going, ok := s.goingTo(c); ok {
		there, _ = s.links.route(going)
	}
	return writeHTML(c, http.StatusUnauthorized, templates.NoticePage(templates.Notice{
		Page:      s.page(c, text.Of("Signed out"), "", 0),
		Sentences: []templates.Sentence{{Lead: text.Of("You are not signed in here."), Rest: text.Of("Signing in needs a window of its own.")}},
		Links:     []templates.Link{{Text: text.Of("Open the console"), URL: there}}, Top: true,
	}))
}

// signedOutProblem tells a form, a script or a client that its session is over.
func (s *server) signedOutProblem(ended *oidc.Ended) problem {
	what := text.Of("You are not signed in.")
	if why := endedWords[ended.Reason]; !why.Empty() {
		what = text.Of("You are not signed in. %s", why)
	}
	p := newProblem(http.StatusUnauthorized, text.Of("Signed out"), what, nothing, text.Of("Sign in, and then do it again."), ended)
	p.kind, p.back = ended.Reason, templates.Link{Text: text.Of("Sign in"), URL: s.links.url(signInPath, nil)}
	if s.Identity.Proxy.Enforced() {
		p.next, p.back = text.Of("Open the console again, and then do it again."), templates.Link{Text: text.Of("Open the console"), URL: s.links.url("/", nil)}
	}
	return p
}

// endedWords say why a session is over. Having had none needs no words.
var endedWords = map[string]text.Text{
	"expired":               text.Of("Your session had lasted as long as a session may."),
	"idle":                  text.Of("Your session ended because nothing was done in it for a while."),
	"renewed":               text.Of("This browser's session has since been renewed."),
	"signed_out":            text.Of("You signed out."),
	"signed_out_everywhere": text.Of("You signed out everywhere."),
	"backchannel_logout":    text.Of("The identity provider ended your session."),
	"user_disabled":         text.Of("Your account is disabled. Ask an administrator to enable it."),
	"user_switched":         text.Of("The sign-in proxy now names another user."),
	"replaced":              text.Of("This browser signed in again since."),
}

// endedReason is why the request has no session, "none" when it brought none and "" when it has one.
func endedReason(ctx context.Context) string {
	_, err := oidc.Current(ctx)
	if ended, ok := errors.AsType[*oidc.Ended](err); ok {
		return ended.Reason
	}
	return ""
}
