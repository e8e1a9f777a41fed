package oidc

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

const stepUpRedirect = testPublic + "/auth/step-up"

// A stepper is a signed-in browser that can step up.
type stepper struct {
	*browser
	stepUp  *StepUp
	session Session
	purpose policy.Purpose
}

func newStepper(t *testing.T) *stepper {
	t.Helper()
	w := newWorld(t)
	b := w.newBrowser()
	w.idp.claims = func(c map[string]any) { c["auth_time"] = time.Now().Add(-time.Hour).Unix() }
	s := &stepper{browser: b, session: b.signedIn(t)}
	w.exec(t, `INSERT INTO projects (id, name, created_at_ms, updated_at_ms) VALUES ('ops', 'Operations', 1, 1)`)
	s.purpose = policy.Purpose{Action: policy.RetryRun, ProjectID: "ops", Items: []policy.Item{{Run: uuid.New(), Version: 4, Digest: "d"}}}
	s.stepUp = must(NewStepUp(StepUpConfig{Issuers: []StepUpIssuer{{Provider: w.provider, Requirement: example()}}, Authn: w.db.Pool(t, migrations.RoleAuthn),
		Cookies: w.cookies, RedirectURL: stepUpRedirect, Log: slog.New(slog.DiscardHandler)}))
	w.idp.redirect = stepUpRedirect
	s.strong(nil)
	return s
}

// strong makes the provider send a fresh second factor, and then what change makes of it.
func (s *stepper) strong(change func(map[string]any)) {
	s.idp.claims = func(c map[string]any) {
		c["auth_time"], c["acr"], c["amr"] = time.Now().Unix(), "gold", []string{"pwd", "otp", "mfa"}
		if change != nil {
			change(c)
		}
	}
}

// ask begins a step-up and returns the provider's answer.
func (s *stepper) ask(t testing.TB, p policy.Purpose) url.Values {
	t.Helper()
	where, err := s.stepUp.Start(t.Context(), s.binder(), Ask{Session: s.session, Purpose: p, Words: "because", Route: testRoute, Client: testFrom})
	if err != nil {
		t.Fatalf("Start() = %v", err)
	}
	return s.idp.authorize(t, where)
}

func (s *stepper) answer(t testing.TB, answer url.Values) (Stepped, error) {
	t.Helper()
	w := httptest.NewRecorder()
	out, err := s.stepUp.Callback(t.Context(), w, s.binder(), answer, s.session, testFrom)
	s.keep(w)
	return out, err
}

func (s *stepper) proofs(t testing.TB) int {
	t.Helper()
	return scan[int](t, s.world, `SELECT count(*) FROM step_up_proofs`)
}

func answerOf(err error) string {
	if err == nil {
		return "ok"
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return string(r.Kind)
	}
	return err.Error()
}

func TestStepUpMakesAProofForItsPurposeAlone(t *testing.T) {
	s := newStepper(t)
	out, err := s.answer(t, s.ask(t, s.purpose))
	if err != nil || out.Proof == nil || out.Route.Name != testRoute.Name {
		t.Fatalf("Callback() = %+v, %v", out, err)
	}
	p, err := policy.ReadProof(t.Context(), s.super, out.Proof.ID)
	if err != nil {
		t.Fatal(err)
	}
	id, cookieHash, ok := s.stepUp.Shown(s.request(), policy.RetryRun, s.purpose.Items[0].Run)
	claim := policy.Claim{UserID: s.session.UserID, SessionID: s.session.ID, CookieHash: cookieHash, Action: policy.RetryRun, ProjectID: "ops", Subject: s.purpose.Items[0].Run}
	if problem := p.Problem(claim); !ok || id != p.ID || problem != "" {
		t.Errorf("the browser shows %v (%v), whose problem is %q, want the proof and none", id, ok, problem)
	}
	if p.Words != "because" || p.Assurance.Level != "multi_factor" || p.Assurance.ACR != "gold" || p.ExpiresAtMS > p.CreatedAtMS+300_000 {
		t.Errorf("proof = %+v", p)
	}
	if _, _, ok := s.stepUp.Shown(s.request(), policy.StopRun, s.purpose.Items[0].Run); ok {
		t.Error("the browser shows the proof for stopping, too")
	}
	if n := scan[int](t, s.world, `SELECT count(*) FROM security_audit_events WHERE action = 'session.step_up' AND outcome = 'allowed' AND strength = 'multi_factor' AND words = 'because'`); n != 1 {
		t.Errorf("%d allowed audit rows, want 1", n)
	}
}

// A batch is a purpose of its own: its proof has its own cookie and is good for no Run, of it or another.
func TestStepUpForABatch(t *testing.T) {
	s := newStepper(t)
	batch := uuid.New()
	s.exec(t, `INSERT INTO run_batches (id, action, project_id, user_id, words, created_at_ms) VALUES ($1, 'run.retry', 'ops', $2, 'because', 1)`, batch, s.session.UserID)
	out, err := s.answer(t, s.ask(t, policy.Purpose{Action: policy.RetryRun, ProjectID: "ops", Batch: batch}))
	if err != nil || out.Proof == nil || out.Proof.Purpose.Batch != batch {
		t.Fatalf("Callback() = %+v, %v", out, err)
	}
	p, err := policy.ReadProof(t.Context(), s.super, out.Proof.ID)
	if err != nil || p.Purpose.Batch != batch || len(p.Purpose.Items) != 0 {
		t.Fatalf("ReadProof() = %+v, %v", p.Purpose, err)
	}
	_, cookieHash, ok := s.stepUp.Shown(s.request(), policy.RetryRun, batch)
	claim := policy.Claim{UserID: s.session.UserID, SessionID: s.session.ID, CookieHash: cookieHash, Action: policy.RetryRun, ProjectID: "ops", Subject: batch}
	if problem := p.Problem(claim); !ok || problem != "" {
		t.Errorf("the browser shows the proof: %v, its problem is %q, want none", ok, problem)
	}
	claim.Subject = uuid.New()
	if problem := p.Problem(claim); problem != policy.ProofOtherPurpose {
		t.Errorf("Problem() for another subject = %q, want other purpose", problem)
	}
	live, err := policy.LiveProofs(t.Context(), s.super, s.session.UserID)
	if err != nil || len(live) != 1 || live[0].Batch != batch {
		t.Errorf("LiveProofs() = %+v, %v, want the batch's", live, err)
	}
	if n := scan[int](t, s.world, `SELECT count(*) FROM security_audit_events WHERE action = 'session.step_up' AND outcome = 'allowed' AND run_id IS NULL AND detail ->> 'batch' = $1`, batch.String()); n != 1 {
		t.Errorf("%d allowed audit rows name the batch, want 1", n)
	}
}

// Everything but a proof leaves no proof, one denied audit row, and the session as it was.
func TestStepUpRefuses(t *testing.T) {
	set := func(name string, v any) func(map[string]any) { return func(c map[string]any) { c[name] = v } }
	tests := []struct {
		name   string
		claims func(map[string]any)
		change func(t *testing.T, s *stepper, answer url.Values)
		want   string
	}{
		{name: "no auth_time", claims: func(c map[string]any) { delete(c, "auth_time") }, want: "no_auth_time"},
		{name: "auth_time is a string", claims: set("auth_time", "now"), want: "no_auth_time"},
		{name: "auth_time has a fraction", claims: set("auth_time", float64(time.Now().Unix())+0.5), want: "no_auth_time"},
		{name: "auth_time an hour ago, iat now", claims: set("auth_time", time.Now().Add(-time.Hour).Unix()), want: "too_old"},
		{name: "auth_time four minutes before the transaction", claims: set("auth_time", time.Now().Add(-4*time.Minute).Unix()), want: "too_old"},
		{name: "auth_time in the future", claims: set("auth_time", time.Now().Add(2*time.Minute).Unix()), want: "bad_token"},
		{name: "a lower acr", claims: func(c map[string]any) { c["acr"], c["amr"] = "silver", []string{"pwd"} }, want: "too_weak"},
		{name: "amr is a string", claims: set("amr", "mfa"), want: "unreadable_assurance"},
		{name: "another subject", claims: set("sub", "somebody-else"), want: "wrong_subject"},
		{name: "an empty subject", claims: set("sub", ""), want: "bad_token"},
		{name: "another transaction's nonce", claims: set("nonce", "other"), want: "wrong_nonce"},
		{name: "cancelled", change: func(_ *testing.T, _ *stepper, a url.Values) { a.Del("code"); a.Set("error", "access_denied") }, want: "cancelled"},
		{name: "login required", change: func(_ *testing.T, _ *stepper, a url.Values) { a.Del("code"); a.Set("error", "login_required") }, want: "provider_error"},
		{name: "unknown state", change: func(_ *testing.T, _ *stepper, a url.Values) { a.Set("state", "x") }, want: "unknown_state"},
		{name: "another session of the same user", change: func(_ *testing.T, s *stepper, _ url.Values) { s.session.ID = uuid.New() }, want: "session_ended"},
		{name: "signed out meanwhile", change: func(t *testing.T, s *stepper, _ url.Values) {
			s.exec(t, `UPDATE console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out'`)
		}, want: "session_ended"},
		{name: "disabled meanwhile", change: func(t *testing.T, s *stepper, _ url.Values) { s.exec(t, `UPDATE users SET status = 'disabled'`) }, want: "disabled"},
		{name: "an authentication that was accepted before", change: func(t *testing.T, s *stepper, _ url.Values) {
			s.exec(t, `UPDATE users SET last_auth_time_s = $1`, time.Now().Unix()+30)
		}, want: "not_new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStepper(t)
			s.strong(tt.claims)
			answer := s.ask(t, s.purpose)
			if tt.change != nil {
				tt.change(t, s, answer)
			}
			_, err := s.answer(t, answer)
			if got := answerOf(err); got != tt.want {
				t.Errorf("Callback() = %s (%v), want %s", got, err, tt.want)
			}
			if n := s.proofs(t); n != 0 {
				t.Errorf("%d proofs, want none", n)
			}
			if got := scan[string](t, s.world, `SELECT coalesce(string_agg(reason, ','), '') FROM security_audit_events WHERE action = 'session.step_up' AND outcome = 'denied'`); got != tt.want {
				t.Errorf("audited as %q, want one row %q", got, tt.want)
			}
		})
	}
}

// A sign-in's state is nothing at the step-up's callback, and the other way round; the token endpoint is not called.
func TestCallbacksKeepToTheirOwn(t *testing.T) {
	s := newStepper(t)
	calls := s.idp.tokenCalls.Load()
	if _, err := s.answer(t, s.start(t)); answerOf(err) != "unknown_state" {
		t.Errorf("a sign-in's answer at the step-up's callback = %v, want unknown_state", err)
	}
	_, err := s.signIn.Callback(s.load(t), httptest.NewRecorder(), s.binder(), s.ask(t, s.purpose), testFrom)
	if answerOf(err) != "unknown_state" {
		t.Errorf("a step-up's answer at the sign-in's callback = %v, want unknown_state", err)
	}
	if s.idp.tokenCalls.Load() != calls {
		t.Error("the token endpoint was called")
	}
}

func TestTwoTabsTwoRuns(t *testing.T) {
	s := newStepper(t)
	other := s.purpose
	other.Items = []policy.Item{{Run: uuid.New(), Version: 1, Digest: "e"}}
	first, second := s.ask(t, s.purpose), s.ask(t, other)
	later := time.Now().Unix()
	s.strong(func(c map[string]any) { later++; c["auth_time"] = later })
	for _, answer := range []url.Values{second, first} { // the callbacks come in the other order
		if _, err := s.answer(t, answer); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []policy.Purpose{s.purpose, other} {
		if _, _, ok := s.stepUp.Shown(s.request(), policy.RetryRun, p.Items[0].Run); !ok {
			t.Errorf("no proof is shown for %s", p.Items[0].Run)
		}
	}
	if _, err := s.answer(t, first); answerOf(err) != "already_used" {
		t.Errorf("the same answer again = %v, want already_used", err)
	}
}

// One answer, brought twenty times at once, makes one proof; so do two transactions with one and the same auth_time.
func TestStepUpHappensOnce(t *testing.T) {
	s := newStepper(t)
	at := time.Now().Unix()
	s.strong(func(c map[string]any) { c["auth_time"] = at })
	answers := []url.Values{s.ask(t, s.purpose), s.ask(t, s.purpose)}
	var mu sync.Mutex
	kinds := map[string]int{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := s.stepUp.Callback(t.Context(), httptest.NewRecorder(), s.binder(), answers[i%2], s.session, testFrom)
			mu.Lock()
			defer mu.Unlock()
			kinds[answerOf(err)]++
		})
	}
	all.Wait()
	if kinds["ok"] != 1 || kinds["not_new"] != 1 || kinds["already_used"] != 18 || s.proofs(t) != 1 {
		t.Errorf("20 callbacks of two transactions with one auth_time = %v with %d proofs, want 1 ok, 1 not_new, 18 already_used", kinds, s.proofs(t))
	}
}

func TestStepUpTestMakesNoProof(t *testing.T) {
	s := newStepper(t)
	s.strong(func(c map[string]any) { c["acr"], c["amr"] = "silver", []string{"pwd"} })
	out, err := s.answer(t, s.ask(t, policy.Purpose{}))
	if err != nil || out.Proof != nil || out.Test == nil {
		t.Fatalf("Callback() of a test = %+v, %v", out, err)
	}
	if out.Test.ACR != "silver" || out.Test.Level != "" || out.Test.Problem == nil || len(out.Test.Rules) != len(example().Assurance) {
		t.Errorf("report = %+v, want what was sent, every rule, and what was wrong", out.Test)
	}
	if n := s.proofs(t); n != 0 {
		t.Errorf("%d proofs, want none", n)
	}
}

// A stand-by issuer's user is the session's by the claim they brought at sign-in, and by nothing else.
func TestStepUpAtAnotherIssuerIsJoined(t *testing.T) {
	tests := []struct{ name, employee, want string }{
		{"the same value", "e-17", "ok"}, {"another", "e-18", "wrong_subject"}, {"none", "", "wrong_subject"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStepper(t)
			s.exec(t, `UPDATE users SET join_key = 'e-17', issuer = 'https://first.example'`)
			s.session.Issuer = "https://first.example"
			s.strong(func(c map[string]any) {
				c["sub"] = "another-subject"
				if tt.employee != "" {
					c["employee"] = tt.employee
				}
			})
			_, err := s.answer(t, s.ask(t, s.purpose))
			if got := answerOf(err); got != tt.want {
				t.Errorf("Callback() = %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

func TestStepUpWithoutAReachableProvider(t *testing.T) {
	s := newStepper(t)
	s.provider.metadata = nil
	_, err := s.stepUp.Start(t.Context(), s.binder(), Ask{Session: s.session, Purpose: s.purpose, Words: "w", Route: testRoute, Client: testFrom})
	if answerOf(err) != "provider_unavailable" || s.stepUp.Status() == nil {
		t.Errorf("Start() = %v, Status() = %v, want provider_unavailable", err, s.stepUp.Status())
	}
}
