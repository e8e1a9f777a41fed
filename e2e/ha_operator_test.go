//go:build ha

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"

	fixture "github.com/qinglong/console/internal/run"
)

const (
	haHost   = "console.example"
	haIssuer = "https://idp.example/realms/ops"
)

// pagesVariables give a replica its pages: who is there is what a trusted proxy says, and nobody asks the identity
// provider, since proofs are put into the database.
func pagesVariables(t testing.TB) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "step-up.yaml")
	table := "step_up:\n  - issuer: " + haIssuer + "\n    client_id: console\n    request: { acr_values: [gold] }\n    second_factor: always\n" +
		"    assurance: [{ claim: acr, equals: gold, level: multi_factor }]\n"
	if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"CONSOLE_PUBLIC_URL": "https://" + haHost, "CONSOLE_PROXY_IDENTITY": "headers", "CONSOLE_PROXY_NAME": "ha",
		"CONSOLE_PROXY_USER_HEADER": "X-User", "CONSOLE_TRUSTED_PROXIES": "127.0.0.1/32", "CONSOLE_STEP_UP_FILE": file}
}

// public is the address of the replica's pages.
func (r *replica) public() string {
	for line := range strings.Lines(r.output.String()) {
		var said struct{ Msg, Public string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening" {
			return "http://" + said.Public
		}
	}
	return ""
}

// shown is what a page said.
type shown struct {
	status   int
	location string
	body     string
}

// An operator is a browser behind the proxy, of somebody who may retry and stop.
type operator struct {
	session *http.Cookie
	id      uuid.UUID // of the session
	user    uuid.UUID
}

// ask sends what a browser sends. It fails only if there was no answer at all.
func (o *operator) ask(t testing.TB, r *replica, path string, form url.Values, cookies ...*http.Cookie) shown {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequest(method, r.public()+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = haHost
	for name, value := range map[string]string{"X-User": "operator", "Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded",
		"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"} {
		request.Header.Set(name, value)
	}
	if o.session != nil {
		request.AddCookie(o.session)
	}
	for _, c := range cookies {
		request.AddCookie(c)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return shown{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	for _, c := range response.Cookies() {
		if strings.HasSuffix(c.Name, "_session") && c.Value != "" {
			o.session = c
		}
	}
	return shown{response.StatusCode, response.Header.Get("Location"), string(body)}
}

// signIn begins a session and gives its user the role.
func signIn(t testing.TB, r *replica, n *node, vars map[string]string) *operator {
	t.Helper()
	o := &operator{}
	if got := o.ask(t, r, "/", nil); o.session == nil {
		t.Fatalf("no session began: %d\n%s", got.status, got.body)
	}
	o.id = pgtest.Value[uuid.UUID](t, n.super, "SELECT id FROM ql3.console_sessions")
	o.user = pgtest.Value[uuid.UUID](t, n.super, "SELECT user_id FROM ql3.console_sessions")
	run(t, vars, "", "grant", "--project", "ops", "--role", "operator", "--yes", "--user", o.user.String())
	return o
}

// failed makes Runs that have failed: the longest waiting ones.
func failed(t *testing.T, n *node, count int) []uuid.UUID {
	t.Helper()
	code := 3
	return executed(t, n, count, fixture.Outcome{Status: fixture.Failed, ExitCode: &code, Code: "exit_code"})
}

// executed admits as many Runs as are executed, so that there are enough. Each is a test of its own, at whose end the
// connections that it needed are closed.
func executed(t *testing.T, n *node, count int, o fixture.Outcome) (list []uuid.UUID) {
	t.Helper()
	db := pgtest.On(n.Server, haDatabase)
	for i := range count {
		t.Run("fixture", func(t *testing.T) {
			now := runtest.Clock(t, n.super)
			runtest.Admit(t, db, "ops", "yearly", now-int64(i), now)
			list = append(list, runtest.Execute(t, db, o))
		})
	}
	return list
}

// proof records that the operator has just verified for action on the Run, and is the cookie that shows it.
func (o *operator) proof(t testing.TB, n *node, action string, run uuid.UUID) *http.Cookie {
	t.Helper()
	id, secret := uuid.New(), "a secret of the browser's"
	hash := sha256.Sum256([]byte(secret))
	pgtest.Exec(t, n.super, `
		WITH clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms)
		INSERT INTO ql3.step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			acr, auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT $1, gen_random_uuid(), $2, $3, 'run.' || $4::text, 'ops', jsonb_build_array(jsonb_build_object('run', r.id, 'version', r.version, 'digest', e.content_digest)),
			'because', 'multi_factor', $5, 'operator', 'console', 'gold', ms / 1000, 'always', $6, ms, ms / 1000 * 1000 + 300000
		FROM clock, ql3.runs r JOIN ql3.task_execution_revisions e ON e.project_id = r.project_id AND e.task_id = r.task_id AND e.task_revision = r.task_revision
		WHERE r.id = $7`, id, o.id, o.user, action, haIssuer, hash[:], run)
	return &http.Cookie{Name: "__Host-ql3_proof_" + action + "_" + run.String()[24:], Value: id.String() + "." + secret}
}

// A submission is a form that the operator has on the screen.
type submission struct {
	path  string
	form  url.Values
	proof *http.Cookie
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// preview verifies, opens the page and returns the form on it.
func (o *operator) preview(t testing.TB, r *replica, n *node, action string, run uuid.UUID) submission {
	t.Helper()
	s := submission{path: "/runs/" + run.String() + "/" + action, form: url.Values{"reason": {"because"}}, proof: o.proof(t, n, action, run)}
	got := o.ask(t, r, s.path, nil, s.proof)
	for _, field := range hiddenField.FindAllStringSubmatch(got.body, -1) {
		s.form.Set(field[1], html.UnescapeString(field[2]))
	}
	if s.form.Get("mutation") == "" {
		t.Fatalf("%s shows no form: %d\n%s", s.path, got.status, got.body)
	}
	return s
}

// submit sends the form.
func (o *operator) submit(t testing.TB, r *replica, s submission) shown {
	t.Helper()
	return o.ask(t, r, s.path, s.form, s.proof)
}
