//go:build ha || torture

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// shown is what a page said.
type shown struct {
	status   int
	location string
	body     string
}

// An operator is a browser behind the proxy, of somebody who may retry and stop.
type operator struct {
	name   string
	cookie atomic.Pointer[http.Cookie] // of the session; several tabs may use it at once
	id     uuid.UUID                   // of the session
	user   uuid.UUID
}

// request sends what a browser sends to the replica's pages at address. The error is that there was no whole answer.
func (o *operator) request(ctx context.Context, address, path string, form url.Values, cookies ...*http.Cookie) (shown, error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(form.Encode()))
	if err != nil {
		return shown{}, err
	}
	fromBrowser(request, o.name, "text/html")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c := o.cookie.Load(); c != nil {
		request.AddCookie(c)
	}
	for _, c := range cookies {
		request.AddCookie(c)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return shown{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return shown{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for _, c := range response.Cookies() {
		if strings.HasSuffix(c.Name, "_session") && c.Value != "" {
			o.cookie.Store(c)
		}
	}
	return shown{response.StatusCode, response.Header.Get("Location"), string(body)}, nil
}

// signIn begins a session of somebody with that name, and gives them the role in the Projects.
func signIn(t testing.TB, r *replica, super *pgxpool.Pool, vars map[string]string, name string, projects ...string) *operator {
	t.Helper()
	o := &operator{name: name}
	if got, err := o.request(t.Context(), r.public(), "/", nil); err != nil || o.cookie.Load() == nil {
		t.Fatalf("no session began: %v %d\n%s", err, got.status, got.body)
	}
	const session = " FROM ql3.console_sessions s JOIN ql3.users u ON u.id = s.user_id WHERE u.subject = $1"
	o.id = pgtest.Value[uuid.UUID](t, super, "SELECT s.id"+session, name)
	o.user = pgtest.Value[uuid.UUID](t, super, "SELECT u.id"+session, name)
	for _, project := range projects {
		run(t, vars, "", "grant", "--project", project, "--role", "operator", "--yes", "--user", o.user.String())
	}
	return o
}

// proof records that the operator has just verified for action on the Run, and is the cookie that shows it.
func (o *operator) proof(ctx context.Context, super *pgxpool.Pool, action string, run uuid.UUID) (*http.Cookie, error) {
	id, secret := uuid.New(), "a secret of the browser's"
	hash := sha256.Sum256([]byte(secret))
	_, err := super.Exec(ctx, `
		WITH clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms)
		INSERT INTO ql3.step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			acr, auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT $1, gen_random_uuid(), $2, $3, 'run.' || $4::text, r.project_id, jsonb_build_array(jsonb_build_object('run', r.id, 'version', r.version, 'digest', e.content_digest)),
			'because', 'multi_factor', $5, 'operator', 'console', 'gold', ms / 1000, 'always', $6, ms, ms / 1000 * 1000 + 300000
		FROM clock, ql3.runs r JOIN ql3.task_execution_revisions e ON e.project_id = r.project_id AND e.task_id = r.task_id AND e.task_revision = r.task_revision
		WHERE r.id = $7`, id, o.id, o.user, action, stepUpIssuer, hash[:], run)
	return &http.Cookie{Name: "__Host-ql3_proof_" + action + "_" + run.String()[24:], Value: id.String() + "." + secret}, err
}

// A submission is a form that the operator has on the screen.
type submission struct {
	path  string
	form  url.Values
	proof *http.Cookie
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// open verifies and opens the page of the action at a replica. A page without a form leaves the mutation empty.
func (o *operator) open(ctx context.Context, address string, super *pgxpool.Pool, action string, run uuid.UUID) (submission, shown, error) {
	s := submission{path: "/runs/" + run.String() + "/" + action, form: url.Values{"reason": {"because"}}}
	var err error
	if s.proof, err = o.proof(ctx, super, action, run); err != nil {
		return s, shown{}, err
	}
	got, err := o.request(ctx, address, s.path, nil, s.proof)
	for _, field := range hiddenField.FindAllStringSubmatch(got.body, -1) {
		s.form.Set(field[1], html.UnescapeString(field[2]))
	}
	return s, got, err
}

// freeze stops the replica as a machine that is paused does.
func (r *replica) freeze() { r.Cmd.Process.Signal(syscall.SIGSTOP) }
func (r *replica) thaw()   { r.Cmd.Process.Signal(syscall.SIGCONT) }
