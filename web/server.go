// Package web is the console's HTTP side: the router, the middleware and the handlers. It is the only writer of
// responses.
//
// A handler reads, words what it read for a reader, and returns an error; [server.fail] alone turns an error into a
// status, a page and a log line, and what the log says never reaches the browser. A page is rendered whole before its
// first byte is written. A read names the Projects its viewer may see, and what lies outside them is answered exactly
// like what does not exist. Every link is made by [links.url], so the console works below any base path.
//
// Every route says in [server.routes] what a request must bring. Whether somebody is signed in is decided before anything
// of the route is: signed out, an address that exists and one that does not get the same answer. Where a signed-out
// reader was going is kept as a route, its ids and its query, and never as an address.
//
// No rule lives here: what is due, allowed, late or terminal is decided where it is owned.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/live"
	"github.com/qinglong/console/web/static"
)

// Config is everything the console needs. All fields but Runs, StepUp, AllowedHosts, Banner, Styleguide, SharedFor, FrameAncestors and FormAction
// are required.
type Config struct {
	DB        pg.Querier // as role ql3_console
	Log       *slog.Logger
	PublicURL *url.URL    // as browsers spell it; its path is the base path, which a proxy must not strip
	Ready     func() bool // what /readyz answers
	Version   string
	// AllowedHosts are the only host names, without port, that are answered; every other is 421. Empty allows all:
	// then the proxy in front must choose.
	AllowedHosts []string
	Banner       text.Text // said on top of every page
	Styleguide   bool      // serve every component in every state: for console dev, which alone sets it

	Identity *Identity
	Runs     *runmgmt.Manager // nil: this replica is read-only, and says so
	StepUp   *oidc.StepUp     // nil: nobody can verify here, and so nothing can be retried or stopped; its RedirectURL is the public URL with StepUpPath below it
	Live     *live.Hub        // says when what is shown may have changed
	// SharedFor is how old counts may be that were read for somebody who sees the same; 0 shares none.
	SharedFor time.Duration
	// FrameAncestors are the same-site origins that may frame the read-only pages without what surrounds
	// them; empty is none. FormAction are the
	// origins besides the console's own that its forms may lead to, such as a proxy's sign-in.
	FrameAncestors, FormAction []string
}

// Identity is how the console knows who is at the browser. All fields are required, but SignIn, Provider and
// BackChannel may be nil where a proxy names every request's user.
type Identity struct {
	SignIn      *oidc.SignIn // its RedirectURL is the public URL with CallbackPath below it
	Provider    *oidc.Provider
	BackChannel *oidc.BackChannel
	Sessions    *oidc.Sessions
	Proxy       *oidc.ProxyIdentity
	Trusted     oidc.TrustedProxies
	Limiter     *oidc.Limiter
	Cookies     oidc.Cookies
}

type server struct {
	Config
	links      links
	declared   map[string]route // by method and whole path
	protection *http.CrossOriginProtection
	recent     *sharing
	gathering  gathering
}

// New returns the console's handler.
func New(c Config) http.Handler { return newServer(c).handler() }

func newServer(c Config) *server {
	s := &server{Config: c, declared: map[string]route{}, protection: http.NewCrossOriginProtection(), recent: &sharing{moment: c.SharedFor, hints: c.Live.Hints},
		links: links{base: strings.TrimSuffix(c.PublicURL.Path, "/"), pages: map[string]route{}}}
	for _, r := range s.routes() {
		if r.name != "" && r.path != "" {
			s.links.pages[r.name] = r
		}
		for _, method := range r.methods() {
			s.declared[method+" "+s.links.base+r.path] = r
		}
	}
	// A URL without a host is refused here, and then trusts nothing.
	_ = s.protection.AddTrustedOrigin((&url.URL{Scheme: c.PublicURL.Scheme, Host: c.PublicURL.Host}).String())
	return s
}

// handler puts what every request goes through in its order. A refusal early in it costs least.
func (s *server) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.fail
	e.Use(
		nameRequest,
		s.secure,
		s.speak, // so that also a refusal is in the reader's language
		recoverPanic,
		limitBody,
		s.limitTime,
		s.onlyAllowedHosts,
		s.identify, // and nothing below reads a header that names somebody
		s.onlyOwnOrigin,
		s.limitRate,
		s.loadSession,
		s.authenticate, // and nothing below is reached without a session, unless its route is open
		onlyTextInPaths,
		s.onlyForms,
	)
	for _, r := range s.routes() {
		e.Match(r.methods(), s.links.base+r.path, r.handle)
	}
	return e
}

// livez says that the process answers.
func (s *server) livez(c echo.Context) error { return c.NoContent(http.StatusOK) }

// readyz says whether this replica wants requests. It gives no reasons: they are for the machine listener.
func (s *server) readyz(c echo.Context) error {
	if !s.Ready() {
		return c.NoContent(http.StatusServiceUnavailable)
	}
	return c.NoContent(http.StatusOK)
}

func (s *server) static(c echo.Context) error {
	if static.Serve(c.Response(), c.Request(), static.Dir+c.Param("*")) {
		return nil
	}
	return echo.ErrNotFound
}

// publicURL is path, made by links, as somebody elsewhere opens it.
func (s *server) publicURL(path string) string {
	u := url.URL{Scheme: s.PublicURL.Scheme, Host: s.PublicURL.Host}
	return u.String() + path
}
