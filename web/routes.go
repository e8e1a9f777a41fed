package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/web/static"
)

// need is what a request must bring before its handler is asked: one of the words below, or a permission, which its user
// must have in a Project at least; in which ones is the handler's to ask. The zero need, of an address that nobody
// declared, is a session.
type need string

const (
	machine  need = "machine"   // nothing, and no session is read: it answers when the database does not
	anyone   need = "anyone"    // nothing, but who is signed in is known
	signedIn need = "signed in" // a session
	reading       = need(policy.Read)
)

func (n need) open() bool { return n == machine || n == anyone }

// A route is what answers at one address.
type route struct {
	method, path string // below the base path
	need         need
	handle       echo.HandlerFunc
	// A page to which somebody is led back after signing in has a name, by which it is kept, and says which parameters it has.
	name  string
	query []string
	// Whether answering may take the identity provider: it is limited in rate, and given the provider's time.
	provider bool
}

func onGet(path string, n need, h echo.HandlerFunc) route {
	return route{method: http.MethodGet, path: path, need: n, handle: h}
}

func onPost(path string, n need, h echo.HandlerFunc) route {
	return route{method: http.MethodPost, path: path, need: n, handle: h}
}

// named makes r a page to which one is led back.
func (r route) named(name string, query ...string) route {
	r.name, r.query = name, query
	return r
}

func (r route) asksProvider() route {
	r.provider = true
	return r
}

func (r route) methods() []string {
	if r.method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.method}
}

// framable reports whether a page of another origin may ever show this one: never what changes something.
func (r route) framable() bool { return r.method != http.MethodPost && r.need == reading }

func (s *server) routes() []route {
	list := []route{
		onGet("/", reading, s.overview).named("overview"),
		onGet("/schedules", reading, s.schedules).named("schedules", schedulesQuery...),
		onGet("/schedules.json", reading, s.schedules),
		onGet("/schedules/:project/:trigger", reading, s.schedule).named("schedule", scheduleQuery...),
		onGet("/schedules/:project/:trigger"+accountPath, reading, s.account),
		onGet("/schedules/:project/:trigger"+accountPath+".json", reading, s.account),
		onGet("/runs", reading, s.runs).named("runs", runsQuery...),
		onGet("/runs.json", reading, s.runs),
		onGet("/runs/:id", reading, s.run).named("run", runQuery...),
		onGet("/go/mutation/:id", reading, s.mutation).named("mutation"),

		onGet("/runs/:id/retry", need(policy.RetryRun), s.retry).named("retry"),
		onPost("/runs/:id/retry", need(policy.RetryRun), s.submitRetry),
		onPost("/runs/:id/retry/verify", need(policy.RetryRun), s.verify(retrying)).asksProvider(),
		onGet("/runs/:id/stop", need(policy.StopRun), s.stop).named("stop"),
		onPost("/runs/:id/stop", need(policy.StopRun), s.submitStop),
		onPost("/runs/:id/stop/verify", need(policy.StopRun), s.verify(stopping)).asksProvider(),
		onGet(auditPath, need(policy.ReadAudit), s.audit).named("audit", auditQuery...),
		onGet(auditPath+".json", need(policy.ReadAudit), s.audit),
		onGet(stepUpTestPath, need(policy.ReadAudit), s.stepUpTest).named(stepUpTestName),

		onGet(profilePath, signedIn, s.profile).named("profile"),
		onGet(signInPath, anyone, s.signIn),
		onGet(SignedOutPath, anyone, s.signedOut),
		onPost(signOutPath, anyone, s.signOut),
		onPost(signOutEverywherePath, signedIn, s.signOutEverywhere),

		onGet("/"+static.Dir+"*", machine, s.static),
		onGet("/livez", machine, s.livez),
		onGet("/readyz", machine, s.readyz),
	}
	if s.links.base != "" {
		list = append(list, onGet("", reading, s.overview).named("overview")) // a base path without its slash
	}
	if s.ownSignIn() {
		list = append(list, onPost(signInPath, anyone, s.startSignIn).asksProvider(), onGet(CallbackPath, anyone, s.callback).asksProvider())
	}
	if s.StepUp != nil {
		list = append(list, onGet(StepUpPath, signedIn, s.stepUpCallback).asksProvider(), onPost(stepUpTestPath, need(policy.ReadAudit), s.startStepUpTest).asksProvider())
	}
	if s.Identity.BackChannel != nil {
		list = append(list, onPost(BackChannelPath, machine, s.backChannel).asksProvider())
	}
	return list
}

// routeOf is the route that c's request matched, or the zero route.
func (s *server) routeOf(c echo.Context) route { return s.declared[c.Request().Method+" "+c.Path()] }
