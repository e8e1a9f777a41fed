//go:build walks

package e2e

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pquerna/otp/totp"

	"github.com/qinglong/console/internal/pg/pgtest"
	fixture "github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

// A station is a console at which Runs can be retried, with its provider and what a walk does there.
type station struct {
	*world
	url, issuer string
	proxied     bool                    // an SSO proxy signs people in
	all         *pgxpool.Pool           // of somebody who may change every fact
	failed      func(testing.TB) string // makes or finds a Run that failed and that no other walk is about
	name        func(who string) string // how the console calls somebody
	secret      func(who string) string // password
	types       func(p *tab, who string)
	cancel      string // selector of the provider's button
	enough      string // selector of the button that goes on without a second factor; without one, leaving it out is enough
	code        func(testing.TB, string) string
}

// codes hands out an account's one-time codes, each once: a provider takes no code twice, and those of the neighbouring
// half minutes too.
type codes struct {
	mu   sync.Mutex
	last map[string]int64
}

const halfMinute = 30

func (c *codes) next(t testing.TB, secret string) (code string) {
	t.Helper()
	eventually(t, "there is another one-time code", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now().Unix() / halfMinute
		step := max(now-1, c.last[secret]+1)
		if step > now+1 {
			return false
		}
		c.last[secret] = step
		code = oneTimeCode(t, secret, time.Unix(step*halfMinute, 0))
		return true
	})
	return code
}

func oneTimeCode(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, at)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// retryTasks is how many Tasks there are of which a Run fails, so that every walk has one to itself.
const retryTasks = 20

func failingTasks() string {
	var b strings.Builder
	b.WriteString("projects:\n  - id: walks\n    name: Walks\n    tasks:\n")
	task := "      - id: %[1]s\n        name: %[1]s\n        command: [/bin/sh, -c, %[2]q]\n        timeout: 5m\n        triggers:\n" +
		"          - { id: %[1]s, cron: %[3]q, timezone: UTC, misfire: skip }\n"
	for i := range retryTasks {
		fmt.Fprintf(&b, task, fmt.Sprintf("job-%d", i), "exit 3", fmt.Sprintf("%d/20 * * * * *", i%20))
	}
	fmt.Fprintf(&b, task, "slow", "sleep 55", "*/30 * * * * *")
	return b.String()
}

// developmentStation is a console dev, with Tasks that fail.
func developmentStation(t *testing.T, w *world) *station {
	return stationOf(t, w, startDevelopment(t), failingTasks(), "walks")
}

// stationOf is a console dev that runs what a manifest says, too, and whose accounts have their roles in its Projects.
func stationOf(t *testing.T, w *world, d development, manifest string, projects ...string) *station {
	vars := map[string]string{"CONSOLE_ADMIN_DATABASE_URL": d.Databases["admin"]}
	run(t, vars, manifest, "apply", "-f", "-")
	accounts := map[string]account{}
	for _, a := range d.Accounts {
		accounts[a.Username] = a
		for _, project := range projects {
			if a.Role == "operator" || a.Role == "admin" || a.Role == "owner" {
				run(t, vars, "", "grant", "--project", project, "--role", a.Role, "--yes", "--subject", d.Issuer, a.Subject)
			}
		}
	}
	pool, err := pgxpool.New(t.Context(), d.Databases["migration"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	once, task := codes{last: map[string]int64{}}, atomic.Int64{}
	return &station{world: w, url: d.URL, issuer: d.Issuer, all: pool, cancel: `form[action="/login/cancel"] button`, enough: `form[action="/login/enough"] button`,
		name:   func(who string) string { return accounts[who].Name },
		secret: func(who string) string { return accounts[who].Password },
		code:   func(t testing.TB, who string) string { return once.next(t, accounts[who].TOTPSecret) },
		types: func(p *tab, who string) {
			p.do(chromedp.WaitVisible("#password"), chromedp.SetValue("#username", who), chromedp.SendKeys("#password", accounts[who].Password+kb.Enter))
		},
		failed: func(t testing.TB) string { return failedRunOf(t, pool, fmt.Sprintf("job-%d", task.Add(1)-1)) },
	}
}

// failedRunOf waits for the first Run of a Task that failed.
func failedRunOf(t testing.TB, pool *pgxpool.Pool, task string) (id string) {
	t.Helper()
	eventually(t, "a Run of "+task+" has failed", func() bool {
		id = pgtest.Value[string](t, pool, "SELECT coalesce((SELECT id::text FROM ql3.runs WHERE task_id = $1 AND status = 'failed' ORDER BY created_at_ms DESC LIMIT 1), '')", task)
		return id != ""
	})
	return id
}

// independentStation is a console that may step up at a provider of its own, in front of which is what front puts there.
func independentStation(t *testing.T, w *world, mount string, front func(*site, ...string)) *station {
	t.Helper()
	own := *w
	own.granted = map[string]bool{}
	own.provider = own.newStepUpProvider(t)
	s := own.newSite(t, mount)
	front(s, "--step-up-file", own.write("step-up.yaml", fmt.Sprintf(assuranceTable, own.provider.issuer, ownClient(mount), own.write("step-up-secret", own.provider.secrets["console"]))))
	return &station{world: &own, url: s.url, issuer: own.provider.issuer, proxied: s.proxied, all: w.super, cancel: "#cancel",
		name:   func(who string) string { return w.people[who].Name },
		secret: func(who string) string { return w.people[who].Password },
		code: func(t testing.TB, who string) string {
			return oneTimeCode(t, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(w.people[who].Password)), time.Now())
		},
		types: func(p *tab, who string) {
			p.do(chromedp.SetValue("#name", who), chromedp.SendKeys("#password", w.people[who].Password+kb.Enter))
		},
		failed: func(t testing.TB) string { return failOne(t, w.db) },
	}
}

// register signs people in once each, which makes them known, and gives them the role.
func (st *station) register(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		st.registerOne(t, name)
	}
}

func (st *station) registerOne(t testing.TB, name string) {
	t.Helper()
	p := st.browser(t).tab()
	p.open(st.url + "/")
	if !st.proxied {
		p.press(signInButton)
	}
	p.below(st.issuer + "/")
	st.types(p, name)
	p.sees("no Project has given you a role")
	run(t, st.vars, "", append([]string{"grant", "--project", "ops", "--role", "operator", "--yes"}, st.user(name)...)...)
}

const assuranceTable = `
step_up:
  - issuer: %s
    client_id: %s
    client_secret_file: %s
    request: { acr_values: [gold] }
    second_factor: always
    assurance:
      - { claim: acr, equals: gold, level: multi_factor }
`

// failOne makes a Run that failed.
func failOne(t testing.TB, db *pgtest.Database) string {
	t.Helper()
	super := db.Super(t)
	now := runtest.Clock(t, super)
	runtest.Admit(t, db, "ops", "beat", now, now)
	code := 3
	return runtest.Execute(t, db, fixture.Outcome{Status: fixture.Failed, ExitCode: &code, Code: "exit_code"}).String()
}

// newStepUpProvider is the independent provider once more, with clients that may come back from a step-up.
func (w *world) newStepUpProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{w: w, issuer: "https://localhost:" + freePort(t), secrets: w.provider.secrets}
	clients := p.clients("https://" + consoleHost + ":" + w.port)
	for _, c := range clients {
		redirects := c["redirect_uris"].([]string)
		if base, ok := strings.CutSuffix(redirects[0], "/auth/callback"); ok {
			c["redirect_uris"] = append(redirects, base+"/auth/step-up")
		}
	}
	u, err := url.Parse(p.issuer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"issuer": p.issuer, "port": u.Port(), "cert": w.path("tls.crt"), "key": w.path("tls.key"), "keys": w.path("jwks-step-up.json"),
		"accounts": w.people, "clients": clients})
	if err != nil {
		t.Fatal(err)
	}
	p.config = w.write("provider-"+u.Port()+".json", string(text))
	p.start(t)
	return p
}

// A crossing has two replicas behind one address: one takes the provider's answers, the other everything else.
type crossing struct {
	callbacks, submissions atomic.Int64
}

// serve starts both and stands at the site's address, behind nginx.
func (c *crossing) serve(t testing.TB, s *site, args ...string) {
	t.Helper()
	var replicas []*httputil.ReverseProxy
	for range 2 {
		s.listen = "127.0.0.1:" + freePort(t)
		s.serve(t, "own.env", args...)
		there := url.URL{Scheme: "http", Host: s.listen}
		replicas = append(replicas, &httputil.ReverseProxy{ErrorLog: log.New(t.Output(), "between: ", 0), Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&there)
			r.Out.Host = r.In.Host
		}})
	}
	between := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		at := replicas[1]
		if r.URL.Path == s.mount+"/auth/step-up" {
			c.callbacks.Add(1)
			at = replicas[0]
		} else if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/retry") {
			c.submissions.Add(1)
		}
		at.ServeHTTP(rw, r)
	}))
	t.Cleanup(between.Close)
	s.listen = strings.TrimPrefix(between.URL, "http://")
	s.nginx(t, "own.nginx.conf", nil)
}
