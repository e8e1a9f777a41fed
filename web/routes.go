package web

import (
	"net/http"
	"slices"

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
	json     bool // it is JSON, whatever the client asks for
	csv      bool // it is CSV, and may take as long as its rows take
	live     bool // a stream keeps its page current
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

// kept makes r a page that a stream keeps current.
func (r route) kept() route {
	r.live = true
	return r
}

// listing is a list at path: its page, which a stream keeps current, and the same as JSON and as CSV.
func listing(path, name string, n need, h echo.HandlerFunc, query []string) []route {
	page, csv := onGet(path, n, h).named(name, query...).kept(), onGet(path+".csv", n, h)
	csv.csv = true
	return []route{page, onGet(path+".json", n, h), csv}
}

// accounts are the account of a Schedule in the forms that are no page: its page is the Schedule's.
func (s *server) accounts() []route {
	path, h := "/schedules/:project/:trigger"+accountPath, s.answer(s.account)
	plain, csv := onGet(path, reading, h), onGet(path+".csv", reading, h)
	plain.json, csv.csv = true, true
	return []route{plain, onGet(path+".json", reading, h), csv}
}

func (r route) methods() []string {
	if r.method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.method}
}

// framable reports whether a page of another origin may ever show this one, and then as a frame shows it, without a form
// that does something: never what changes something.
func (r route) framable() bool { return r.method != http.MethodPost && r.need == reading }

func (s *server) routes() []route {
	list := slices.Concat(
		listing(schedulesPath, "schedules", reading, s.answer(s.schedules), schedulesQuery),
		listing(runsPath, "runs", reading, s.answer(s.runs), runsQuery),
		listing(claimsPath, "claims", reading, s.answer(s.claimsNow), nil),
		listing(auditPath, "audit", need(policy.ReadAudit), s.answer(s.audit), auditQuery),
		listing(batchesPath, "batches", reading, s.answer(s.batches), batchesQuery),
		s.accounts(),
	)
	list = append(list,
		onGet("/", reading, s.answer(s.overview)).named("overview").kept(),
		onGet("/schedules/:project/:trigger", reading, s.answer(s.schedule)).named("schedule", scheduleQuery...).kept(),
		onGet("/runs/:id", reading, s.answer(s.run)).named("run", runQuery...).kept(),
		onGet("/go/mutation/:id", reading, s.answer(s.mutation)).named("mutation"),
		onGet(goRunPath, reading, s.goRun).named("go", goRunQuery...),
		onGet(searchPath, reading, s.answer(s.search)).named("search", "q"),
		onGet(searchPath+".json", reading, s.answer(s.search)),

		onGet("/runs/:id/retry", need(policy.RetryRun), s.retry).named("retry"),
		onPost("/runs/:id/retry", need(policy.RetryRun), s.submitRetry),
		onPost("/runs/:id/retry/verify", need(policy.RetryRun), s.verify(retrying)).asksProvider(),
		onGet("/runs/:id/stop", need(policy.StopRun), s.stop).named("stop"),
		onPost("/runs/:id/stop", need(policy.StopRun), s.submitStop),
		onPost("/runs/:id/stop/verify", need(policy.StopRun), s.verify(stopping)).asksProvider(),

		onGet(selectPath, need(policy.RetryRun), s.selectMatching).named("select", selectQuery...),
		onPost(selectPath, need(policy.RetryRun), s.selectChosen),
		onPost(freezePath, need(policy.RetryRun), s.freeze).asksProvider(),
		onGet(submissionPath, need(policy.RetryRun), s.review).named(submissionName, "only"),
		onPost(submissionPath, need(policy.RetryRun), s.submitBatch),
		onPost(submissionPath+"/verify", need(policy.RetryRun), s.verifyBatch).asksProvider(),
		onGet("/batches/:id", reading, s.answer(s.batch)).named("batch", batchQuery...).kept(),
		onPost(pausePath, need(policy.PauseTrigger), s.pause),
		onPost(resumePath, need(policy.PauseTrigger), s.resume),

		onGet(stepUpTestPath, need(policy.ReadAudit), s.stepUpTest).named(stepUpTestName),

		onGet(profilePath, signedIn, s.profile).named("profile"),
		onGet(signInPath, anyone, s.signIn),
		onGet(SignedOutPath, anyone, s.signedOut),
		onPost(signOutPath, anyone, s.signOut),
		onPost(signOutEverywherePath, signedIn, s.signOutEverywhere),

		onGet("/"+static.Dir+"*", machine, s.static),
		onGet("/livez", machine, s.livez),
		onGet("/readyz", machine, s.readyz),
		onPost(preferencesPath, anyone, s.prefer),
	)
	if s.links.base != "" {
		list = append(list, onGet("", reading, s.answer(s.overview)).named("overview").kept()) // a base path without its slash
	}
	if s.ownSignIn() {
		list = append(list, onPost(signInPath, anyone, s.startSignIn).asksProvider(), onGet(CallbackPath, anyone, s.callback).asksProvider())
	}
	if s.Styleguide {
		list = append(list, onGet(styleguidePath, signedIn, s.styleguide))
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
