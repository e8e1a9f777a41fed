// Package web is the console's HTTP side: the router, the middleware and the handlers. It is the only writer of
// responses.
//
// A handler reads, words what it read for a reader, and returns an error; [server.fail] alone turns an error into a
// status, a page and a log line, and what the log says never reaches the browser. A page is rendered whole before its
// first byte is written. A read names the Projects its viewer may see, and what lies outside them is answered exactly
// like what does not exist. Every link is made by [links.url], so the console works below any base path.
//
// No rule lives here: what is due, allowed, late or terminal is decided where it is owned.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/web/static"
)

// Config is everything the console needs. All fields but AllowedHosts and Banner are required.
type Config struct {
	DB        pg.Querier // as role ql3_console
	Log       *slog.Logger
	PublicURL *url.URL    // as browsers spell it; its path is the base path, which a proxy must not strip
	Ready     func() bool // what /readyz answers
	Version   string
	// AllowedHosts are the only host names, without port, that are answered; every other is 421. Empty allows all:
	// then the proxy in front must choose.
	AllowedHosts []string
	Banner       string // said on top of every page

	Identity *Identity // who is at the browser
	// FrameAncestors are the same-site origins that may frame the read-only pages; empty is none. FormAction are the
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

// The paths, below the public URL, that an identity provider is told.
const (
	CallbackPath    = "/auth/callback"
	SignedOutPath   = "/auth/signed-out" // where the provider leads back to once it has signed somebody out
	BackChannelPath = "/auth/backchannel-logout"
)

type server struct {
	Config
	links  links
	viewer func(echo.Context) (viewer, error) // the one place that says what a request may see
}

// New returns the console's handler.
func New(c Config) http.Handler { return newServer(c).handler() }

func newServer(c Config) *server {
	s := &server{Config: c, links: links{base: strings.TrimSuffix(c.PublicURL.Path, "/")}}
	s.viewer = s.everyProject
	return s
}

func (s *server) handler() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.fail
	e.Use(nameRequest, secure, recoverPanic, s.onlyAllowedHosts, limitBody, limitTime)
	s.routes(e)
	return e
}

func (s *server) routes(e *echo.Echo) {
	get := func(path string, h echo.HandlerFunc) {
		e.Match([]string{http.MethodGet, http.MethodHead}, s.links.base+path, h)
	}
	get("/", s.overview)
	get("/schedules", s.schedules)
	get("/schedules.json", s.schedules)
	get("/schedules/:project/:trigger", s.schedule)
	get("/schedules/:project/:trigger"+accountPath, s.account)
	get("/schedules/:project/:trigger"+accountPath+".json", s.account)
	get("/runs", s.runs)
	get("/runs.json", s.runs)
	get("/runs/:id", s.run)
	get("/"+static.Dir+"*", s.static)
	get("/livez", s.livez)
	get("/readyz", s.readyz)
	if s.links.base != "" {
		get("", s.overview) // a base path without its slash
	}
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
