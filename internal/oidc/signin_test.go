package oidc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func TestSignIn(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	w.idp.claims = func(c map[string]any) { c["employee"] = "E-7" }

	outcome, err := b.callback(t, b.start(t))
	if err != nil {
		t.Fatalf("Callback() = %v", err)
	}

	if diff := cmp.Diff(testRoute, outcome.Route); diff != "" {
		t.Errorf("Callback() leads elsewhere (-want +got):\n%s", diff)
	}
	got, err := b.current(t)
	if err != nil {
		t.Fatalf("Current() after a sign-in = %v", err)
	}
	got.NowMS, got.LastSeenAtMS = outcome.Session.NowMS, outcome.Session.LastSeenAtMS
	if diff := cmp.Diff(outcome.Session, got); diff != "" {
		t.Errorf("Current() is another session than Callback()'s (-want +got):\n%s", diff)
	}
	if got.Issuer != w.idp.URL || got.Subject != "alice" || got.Name != "Alice Example" || got.Email != "alice@example.com" || !got.EmailVerified || got.ClientID != testClient {
		t.Errorf("session = %+v, want what the token said", got)
	}
	row := scan[string](t, w, `SELECT join_key || ' ' || (last_auth_time_s > 0) || ' ' || (signed_in_at_ms > 0) FROM users`)
	if row != "E-7 true true" {
		t.Errorf("user = %s, want the join key and the time of authentication", row)
	}
	audit := scan[string](t, w, `SELECT action || ' ' || outcome || ' ' || subject || ' ' || actor || ' ' || peer_address || ' ' || claimed_address || ' ' || request_id FROM security_audit_events`)
	if want := "session.sign_in allowed alice Alice Example 192.0.2.7 203.0.113.9 req-1"; audit != want {
		t.Errorf("audit = %s, want %s", audit, want)
	}
}

// What is asked for is right whatever the request's Host says: the redirect URI is configured.
func TestStartAsksForWhatIsChecked(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	where, err := w.signIn.Start(t.Context(), b.binder(), testRoute, testFrom)
	if err != nil {
		t.Fatal(err)
	}
	q := must(url.Parse(where)).Query()
	want := map[string]string{"response_type": "code", "response_mode": "query", "client_id": testClient, "redirect_uri": testRedirect,
		"code_challenge_method": "S256", "scope": "openid profile email"}
	for name, value := range want {
		if q.Get(name) != value {
			t.Errorf("%s = %q, want %q", name, q.Get(name), value)
		}
	}
	for _, name := range []string{"state", "nonce"} {
		if len(q.Get(name)) != 43 {
			t.Errorf("%s = %q, want 256 bits", name, q.Get(name))
		}
	}
}

// A copy of the table redeems no code: state and nonce are there hashed, and the verifier not at all.
func TestTransactionKeepsNoSecret(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	where, err := w.signIn.Start(t.Context(), b.binder(), testRoute, testFrom)
	if err != nil {
		t.Fatal(err)
	}
	q := must(url.Parse(where)).Query()
	row := scan[string](t, w, `SELECT row_to_json(a)::text FROM auth_transactions a`)
	id := scan[[16]byte](t, w, `SELECT id FROM auth_transactions`)
	for name, secret := range map[string]string{"state": q.Get("state"), "nonce": q.Get("nonce"), "binder": b.binder(), "verifier": pkceVerifier(b.binder(), id)} {
		if strings.Contains(row, secret) || strings.Contains(row, hex.EncodeToString([]byte(secret))) {
			t.Errorf("the %s is in the table", name)
		}
	}
	if sum := sha256.Sum256([]byte(q.Get("state"))); !strings.Contains(row, hex.EncodeToString(sum[:])) {
		t.Error("the state's hash is not in the table")
	}
}

// forged are the tokens and answers of a provider, or of somebody in its place, that must not sign anybody in.
var forged = []struct {
	name string
	evil func(*idp)
	want Kind
}{
	{"no nonce", claim("nonce", nil), WrongNonce},
	{"another transaction's nonce", claim("nonce", "another"), WrongNonce},
	{"nonce is no string", claim("nonce", 7), BadToken},
	{"empty nonce", claim("nonce", ""), WrongNonce},
	{"another issuer", claim("iss", "https://evil.example"), BadToken},
	{"issuer with a slash", func(i *idp) { i.claims = func(c map[string]any) { c["iss"] = i.URL + "/" } }, BadToken},
	{"no issuer", claim("iss", nil), BadToken},
	{"another audience", claim("aud", "another"), BadToken},
	{"no audience", claim("aud", nil), BadToken},
	{"two audiences without azp", claim("aud", []string{testClient, "another"}), BadToken},
	{"two audiences, azp is the other", claims2("aud", []string{testClient, "another"}, "azp", "another"), BadToken},
	{"one audience, azp is another", claim("azp", "another"), BadToken},
	{"azp is no string", claim("azp", []string{testClient}), BadToken},
	{"no subject", claim("sub", nil), BadToken},
	{"empty subject", claim("sub", ""), BadToken},
	{"subject is a number", claim("sub", 7), BadToken},
	{"subject with a NUL", claim("sub", "a\x00b"), BadToken},
	{"expired", claim("exp", time.Now().Add(-time.Second).Unix()), BadToken},
	{"no expiry", claim("exp", nil), BadToken},
	{"not valid yet", claim("nbf", time.Now().Add(time.Hour).Unix()), BadToken},
	{"issued in the future", claim("iat", time.Now().Add(2*time.Minute).Unix()), BadToken},
	{"issued never", claim("iat", nil), BadToken},
	{"issued at a string", claim("iat", "1700000000"), BadToken},
	{"at_hash of another token", claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), BadToken},
	{"empty at_hash", claim("at_hash", ""), BadToken},
	{"alg none", func(i *idp) { i.sign = unsigned }, BadToken},
	{"HS256 with the client secret", func(i *idp) { i.sign = signAs(jose.HS256, []byte(testSecret+testSecret), "good", "JWT") }, BadToken},
	{"HS256 with the public key", func(i *idp) {
		i.sign = signAs(jose.HS256, must(json.Marshal(publicKey(goodKey(), "good"))), "good", "JWT")
	}, BadToken},
	{"signed with another key under the same kid", func(i *idp) { i.sign = signRS256(otherKey(), "good") }, BadToken},
	{"signed with an unknown key", func(i *idp) { i.sign = signRS256(otherKey(), "unknown") }, BadToken},
	{"an algorithm that is not the key's", func(i *idp) { i.sign = signAs(jose.PS256, goodKey(), "good", "JWT") }, BadToken},
	{"not a JWT", func(i *idp) { i.sign = func([]byte) string { return "canary-not-a-jwt" } }, BadToken},
	{"JSON serialization", func(i *idp) {
		sign := i.sign
		i.sign = func(p []byte) string {
			parts := strings.Split(sign(p), ".")
			return fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2])
		}
	}, BadToken},
	{"no ID token", func(i *idp) { i.tokens = func(m map[string]any) { delete(m, "id_token") } }, BadToken},
	{"sub is there twice", payload(`{"sub":"mallory",`), BadToken},
	{"SUB beside sub", payload(`{"SUB":"mallory",`), BadToken},
	{"a long s in iss", payload(`{"i\u017fs":"x",`), BadToken},
	{"Nonce beside nonce", payload(`{"Nonce":"x",`), BadToken},
	{"acr is there twice", payload(`{"acr":"a","acr":"b",`), BadToken},
	{"the payload is an array", func(i *idp) { i.payload = func([]byte) []byte { return []byte(`["sub"]`) } }, BadToken},
	{"something follows the payload", func(i *idp) { i.payload = func(p []byte) []byte { return append(p, "{}"...) } }, BadToken},
	{"token endpoint answers 500", answers(http.StatusInternalServerError, "text/html", "<h1>canary</h1>"), ProviderUnavailable},
	{"token endpoint answers HTML", answers(http.StatusOK, "text/html", "<h1>canary</h1>"), ProviderUnavailable},
	{"token endpoint answers an error", answers(http.StatusBadRequest, "application/json", `{"error":"invalid_grant","error_description":"canary"}`), ProviderError},
	{"token endpoint answers too much", answers(http.StatusOK, "application/json", `{"access_token":"`+strings.Repeat("x", maxAnswer)+`"}`), ProviderUnavailable},
	{"token endpoint redirects", func(i *idp) {
		i.token = func(w http.ResponseWriter) bool {
			w.Header().Set("Location", i.URL+"/token")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}
	}, ProviderUnavailable},
	{"key set answers 500", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusInternalServerError); return true }
	}, ProviderUnavailable},
	{"key set is HTML", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool { w.Write([]byte("<h1>canary</h1>")); return true }
	}, ProviderUnavailable},
	{"key set redirects", func(i *idp) {
		i.keySet = func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "/keys")
			w.WriteHeader(http.StatusFound)
			return true
		}
	}, ProviderUnavailable},
}

func claim(name string, value any) func(*idp) {
	return func(i *idp) { i.claims = func(c map[string]any) { set(c, name, value) } }
}

func claims2(name1 string, value1 any, name2 string, value2 any) func(*idp) {
	return func(i *idp) {
		i.claims = func(c map[string]any) { set(c, name1, value1); set(c, name2, value2) }
	}
}

func set(c map[string]any, name string, value any) {
	if value == nil {
		delete(c, name)
		return
	}
	c[name] = value
}

// payload puts members before the others.
func payload(start string) func(*idp) {
	return func(i *idp) { i.payload = func(p []byte) []byte { return append([]byte(start), p[1:]...) } }
}

func answers(status int, contentType, body string) func(*idp) {
	return func(i *idp) {
		i.token = func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			w.Write([]byte(body))
			return true
		}
	}
}

// Whatever the provider answers, nobody is signed in, the session the browser had stays, the code is sent once, and
// nothing of what was sent is in an error, a log line or the audit.
func TestForgedAnswers(t *testing.T) {
	w := newWorld(t)
	for _, tt := range forged {
		t.Run(tt.name, func(t *testing.T) {
			b := w.newBrowser()
			before := b.signedIn(t)
			answer := b.start(t)
			good := *w.idp.behaviour()
			defer w.idp.behave(good)
			tt.evil(w.idp)
			w.again(t)
			calls, sessions := w.idp.tokenCalls.Load(), w.liveSessions(t)

			_, err := b.callback(t, answer)

			refusal := w.refused(t, err, tt.want)
			if refusal.Route == nil || refusal.Route.Name != testRoute.Name {
				t.Errorf("refusal.Route = %v, want where the user was going", refusal.Route)
			}
			if got := w.idp.tokenCalls.Load() - calls; got != 1 {
				t.Errorf("the token endpoint was called %d times, want once", got)
			}
			if got := w.liveSessions(t); got != sessions {
				t.Errorf("there are %d sessions, want %d", got, sessions)
			}
			if now, err := b.current(t); err != nil || now.ID != before.ID {
				t.Errorf("Current() = %v, %v, want the session from before", now.ID, err)
			}
			w.discreet(t, err, answer, b)
		})
	}
}

// behaviour is what a test changes of a provider.
type behaviour struct {
	claims  func(map[string]any)
	payload func([]byte) []byte
	sign    func([]byte) string
	tokens  func(map[string]any)
	token   func(http.ResponseWriter) bool
	keys    []jose.JSONWebKey
	keySet  func(http.ResponseWriter) bool
}

func (i *idp) behaviour() *behaviour {
	return &behaviour{i.claims, i.payload, i.sign, i.tokens, i.token, i.keys, i.keySet}
}

func (i *idp) behave(b behaviour) {
	i.claims, i.payload, i.sign, i.tokens, i.token, i.keys, i.keySet = b.claims, b.payload, b.sign, b.tokens, b.token, b.keys, b.keySet
}

// discreet fails the test when a secret, a token, a code or a verifier got out.
func (w *world) discreet(t *testing.T, err error, answer url.Values, b *browser) {
	t.Helper()
	written := w.log.String() + scan[string](t, w, `SELECT coalesce(string_agg(row_to_json(a)::text, ' '), '') FROM security_audit_events a`)
	if err != nil {
		written += err.Error()
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		written += refusal.Found + refusal.Next
	}
	for _, secret := range []string{"canary", testSecret, testAccess, answer.Get("code"), answer.Get("state"), b.binder(), "eyJ", "mallory"} {
		if secret != "" && strings.Contains(written, secret) {
			t.Errorf("%q got out: it is in an error, the log or the audit", secret)
		}
	}
}

func TestAnswers(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name   string
		answer func(url.Values)
		want   Kind
	}{
		{"cancelled", errorAnswer("access_denied"), Cancelled},
		{"login required", errorAnswer("login_required"), ProviderError},
		{"temporarily unavailable", errorAnswer("temporarily_unavailable"), ProviderUnavailable},
		{"an error that is no word", errorAnswer("<script>canary"), ProviderError},
		{"two errors", func(v url.Values) { v["error"] = []string{"access_denied", "x"}; v.Del("code") }, ProviderError},
		{"an error beside a code", func(v url.Values) { v.Set("error", "access_denied") }, Cancelled},
		{"no code", func(v url.Values) { v.Del("code") }, ProviderError},
		{"two codes", func(v url.Values) { v.Add("code", "another") }, ProviderError},
		{"another issuer's answer", func(v url.Values) { v.Set("iss", "https://evil.example") }, WrongIssuer},
		{"another issuer's error", func(v url.Values) { v.Set("iss", "https://evil.example"); v.Set("error", "access_denied") }, WrongIssuer},
		{"iss twice", func(v url.Values) { v["iss"] = []string{w.idp.URL, w.idp.URL} }, WrongIssuer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := w.newBrowser()
			answer := b.start(t)
			tt.answer(answer)
			calls := w.idp.tokenCalls.Load()

			_, err := b.callback(t, answer)

			w.refused(t, err, tt.want)
			if got := w.idp.tokenCalls.Load() - calls; got != 0 {
				t.Errorf("the token endpoint was called %d times, want never", got)
			}
			if _, err := b.callback(t, answer); kindOf(err) != AlreadyUsed {
				t.Errorf("the same answer again = %v, want already_used: an error spends the transaction too", err)
			}
			w.discreet(t, err, answer, b)
		})
	}
}

func errorAnswer(code string) func(url.Values) {
	return func(v url.Values) { v.Del("code"); v.Set("error", code) }
}

// A provider that says that it sends iss must, on errors too (RFC 9207).
func TestProviderThatSendsIss(t *testing.T) {
	w := newWorld(t)
	w.idp.metadata = func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }
	w.again(t)
	b := w.newBrowser()

	answer := b.start(t)
	_, err := b.callback(t, answer)
	w.refused(t, err, WrongIssuer)

	answer = b.start(t)
	errorAnswer("access_denied")(answer)
	_, err = b.callback(t, answer)
	w.refused(t, err, WrongIssuer)

	answer = b.start(t)
	answer.Set("iss", w.idp.URL)
	if _, err := b.callback(t, answer); err != nil {
		t.Errorf("Callback() with the right iss = %v", err)
	}
}

func TestStateIsSpentByItsOwnBrowserOnce(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	tests := []struct {
		name    string
		arrange func(*testing.T) (*browser, url.Values)
		want    Kind
	}{
		{"unknown", func(*testing.T) (*browser, url.Values) { return b, url.Values{"state": {"x"}, "code": {"y"}} }, UnknownState},
		{"missing", func(*testing.T) (*browser, url.Values) { return b, url.Values{"code": {"y"}} }, UnknownState},
		{"twice", func(t *testing.T) (*browser, url.Values) {
			answer := b.start(t)
			answer.Add("state", "x")
			return b, answer
		}, UnknownState},
		{"another browser's", func(t *testing.T) (*browser, url.Values) { return w.newBrowser(), b.start(t) }, UnknownState},
		{"a browser without a binder", func(t *testing.T) (*browser, url.Values) {
			return &browser{world: w, jar: map[string]*http.Cookie{}}, b.start(t)
		}, UnknownState},
		{"used", func(t *testing.T) (*browser, url.Values) {
			answer := b.start(t)
			if _, err := b.callback(t, answer); err != nil {
				t.Fatal(err)
			}
			return b, answer
		}, AlreadyUsed},
		{"expired", func(t *testing.T) (*browser, url.Values) {
			answer := b.start(t)
			w.exec(t, `UPDATE auth_transactions SET created_at_ms = created_at_ms - 600000, expires_at_ms = expires_at_ms - 600000 WHERE consumed_at_ms IS NULL`)
			return b, answer
		}, Expired},
		{"of another client", func(t *testing.T) (*browser, url.Values) {
			answer := b.start(t)
			w.exec(t, `UPDATE auth_transactions SET client_id = 'old' WHERE consumed_at_ms IS NULL`)
			return b, answer
		}, UnknownState},
		{"of another provider", func(t *testing.T) (*browser, url.Values) {
			answer := b.start(t)
			w.exec(t, `UPDATE auth_transactions SET issuer = 'https://old.example' WHERE consumed_at_ms IS NULL`)
			return b, answer
		}, UnknownState},
		{"of a step-up", func(t *testing.T) (*browser, url.Values) {
			session := b.signedIn(t)
			answer := b.start(t)
			w.exec(t, `UPDATE auth_transactions SET kind = 'step_up_test', session_id = $1, user_id = $2 WHERE consumed_at_ms IS NULL`, session.ID, session.UserID)
			return b, answer
		}, UnknownState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			who, answer := tt.arrange(t)
			calls, sessions := w.idp.tokenCalls.Load(), w.liveSessions(t)
			_, err := who.callback(t, answer)
			w.refused(t, err, tt.want)
			if got := w.idp.tokenCalls.Load() - calls; got != 0 {
				t.Errorf("the token endpoint was called %d times, want never", got)
			}
			if got := w.liveSessions(t); got != sessions {
				t.Errorf("there are %d sessions, want %d", got, sessions)
			}
		})
		w.exec(t, `DELETE FROM auth_transactions`)
	}
}

// Twenty callbacks with one state, let go together: one session, one redemption.
func TestParallelCallbacks(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	answer := b.start(t)
	const n = 20
	errs := make([]error, n)
	var wg sync.WaitGroup
	barrier := make(chan struct{})
	for i := range n {
		ctx := b.load(t)
		wg.Go(func() {
			<-barrier
			_, errs[i] = w.signIn.Callback(ctx, httptest.NewRecorder(), b.binder(), answer, testFrom)
		})
	}
	close(barrier)
	wg.Wait()

	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case kindOf(err) != AlreadyUsed:
			t.Errorf("Callback() = %v, want already_used", err)
		}
	}
	if sessions := w.liveSessions(t); won != 1 || sessions != 1 || w.idp.tokenCalls.Load() != 1 {
		t.Errorf("%d callbacks won, %d sessions, %d redemptions; want one each", won, sessions, w.idp.tokenCalls.Load())
	}
}

// A callback that comes while another holds the row waits, and finds it spent.
func TestCallbackDuringAnother(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	answer := b.start(t)
	tx := must(w.super.Begin(t.Context()))
	defer tx.Rollback(t.Context())
	if _, err := spend(t.Context(), tx, forSignIn, b.binder(), answer.Get("state")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := spend(t.Context(), w.super, forSignIn, b.binder(), answer.Get("state"))
		done <- err
	}()
	w.waitForLock(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; kindOf(err) != AlreadyUsed {
		t.Errorf("spend() after another's = %v, want already_used", err)
	}
}

// waitForLock returns when a connection of the test's database waits for a row.
func (w *world) waitForLock(t *testing.T) {
	t.Helper()
	for t.Context().Err() == nil {
		if scan[int](t, w, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
			return
		}
	}
	t.Fatal("nobody waits for a lock")
}

// Two tabs, two sign-ins, answered in the other order: each is its own.
func TestTwoTabs(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	first, second := b.start(t), b.start(t)
	if _, err := b.callback(t, second); err != nil {
		t.Errorf("the second tab's Callback() = %v", err)
	}
	if _, err := b.callback(t, first); err != nil {
		t.Errorf("the first tab's Callback() = %v", err)
	}
	if got := w.liveSessions(t); got != 1 {
		t.Errorf("%d sessions live, want the newer alone: the browser has one cookie", got)
	}
}

func TestPendingTransactionsAreBounded(t *testing.T) {
	w := newWorld(t)
	b, other := w.newBrowser(), w.newBrowser()
	others := other.start(t)
	oldest := b.start(t)
	var newest url.Values
	var wg sync.WaitGroup
	for range 4 * maxPending { // in parallel: the last trim sees every insertion
		wg.Go(func() { b.start(t) })
	}
	wg.Wait()
	newest = b.start(t)

	pending := scan[int](t, w, `SELECT count(*) FROM auth_transactions WHERE binder_hash = $1`, hash(b.binder()))
	if pending != maxPending {
		t.Errorf("%d transactions are pending, want %d", pending, maxPending)
	}
	if _, err := b.callback(t, oldest); kindOf(err) != UnknownState {
		t.Errorf("Callback() of the oldest = %v, want unknown_state", err)
	}
	if _, err := b.callback(t, newest); err != nil {
		t.Errorf("Callback() of the newest = %v", err)
	}
	if _, err := other.callback(t, others); err != nil {
		t.Errorf("another browser's Callback() = %v", err)
	}
}

func TestOldTransactionsAreSwept(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.start(t)
	w.exec(t, `UPDATE auth_transactions SET created_at_ms = created_at_ms - 7200000, expires_at_ms = expires_at_ms - 7200000`)
	w.newBrowser().start(t)
	if n := scan[int](t, w, `SELECT count(*) FROM auth_transactions`); n != 1 {
		t.Errorf("%d transactions are left, want the new one", n)
	}
}

// The database clock judges a token, not this machine's: a transaction spent at another time sees another now.
func TestDatabaseClockJudges(t *testing.T) {
	w := newWorld(t)
	m := must(w.provider.known())
	nonce := random()
	now := time.Now()
	token := w.idp.sign(w.idp.idToken(nonce))
	at := func(d time.Duration) spent { return spent{nonceHash: hash(nonce), spentAtMS: now.Add(d).UnixMilli()} }
	tests := []struct {
		name string
		at   time.Duration
		ok   bool
	}{
		{"now", 0, true},
		{"the database is 59 s behind the provider", -59 * time.Second, true},
		{"the database is two minutes behind", -2 * time.Minute, false},
		{"just before the expiry", time.Hour - 2*time.Second, true},
		{"after the expiry", time.Hour + 2*time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := w.provider.verifyID(t.Context(), m, token, testAccess, at(tt.at)); (err == nil) != tt.ok {
				t.Errorf("verifyID() = %v, want ok %v", err, tt.ok)
			}
		})
	}
}

// A 12 KB token with 200 groups signs in, and the cookies stay small.
func TestLargeToken(t *testing.T) {
	w := newWorld(t)
	groups := make([]string, 200)
	for i := range groups {
		groups[i] = fmt.Sprintf("cn=group-%03d,ou=operations,dc=corp,dc=example", i)
	}
	w.idp.claims = func(c map[string]any) { c["groups"] = groups }
	if size := len(w.idp.sign(w.idp.idToken(random()))); size < 12_000 {
		t.Fatalf("the token has %d bytes, want a large one", size)
	}
	b := w.newBrowser()
	b.signedIn(t)
	size := 0
	for _, c := range b.jar {
		size += len(c.Name) + len(c.Value) + 3
	}
	if size > 1024 {
		t.Errorf("the cookies have %d bytes, want under 1 KB together", size)
	}
}

// Keys rotated between request and callback: the new one is fetched.
func TestKeysRotated(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.signedIn(t) // the old keys are known
	answer := b.start(t)
	w.idp.keys = []jose.JSONWebKey{publicKey(ecKey(), "new")}
	w.idp.sign = signAs(jose.ES256, ecKey(), "new", "JWT")
	w.idp.claims = func(c map[string]any) { delete(c, "at_hash") }
	if _, err := b.callback(t, answer); err != nil {
		t.Errorf("Callback() after the keys were rotated = %v", err)
	}
	if _, err := b.callback(t, b.start(t)); err != nil {
		t.Errorf("Callback() with the new keys = %v", err)
	}
}

func TestSlowProvider(t *testing.T) {
	w := newWorld(t)
	w.provider.client = httpClient(200 * time.Millisecond)
	b := w.newBrowser()
	answer := b.start(t)
	release := make(chan struct{})
	w.idp.token = func(http.ResponseWriter) bool { <-release; return true }
	_, err := b.callback(t, answer)
	close(release)
	w.refused(t, err, ProviderUnavailable)
	if got := w.idp.tokenCalls.Load(); got != 1 {
		t.Errorf("the code was sent %d times, want once", got)
	}
	w.discreet(t, err, answer, b)
}

func TestProviderDown(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	session := b.signedIn(t)
	answer := b.start(t)
	w.idp.Close()

	_, err := b.callback(t, answer)
	w.refused(t, err, ProviderUnavailable)

	w.provider.metadata = nil // a replica that started meanwhile
	if err := w.provider.Discover(t.Context()); err == nil {
		t.Error("Discover() of a provider that is down succeeded")
	}
	_, err = w.signIn.Start(t.Context(), b.binder(), testRoute, testFrom)
	w.refused(t, err, ProviderUnavailable)
	if now, err := b.current(t); err != nil || now.ID != session.ID {
		t.Errorf("Current() = %v, %v, want sessions untouched", now.ID, err)
	}
}

func TestDisabledUser(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.signedIn(t)
	w.exec(t, `UPDATE users SET status = 'disabled'`)
	if why := b.ended(t); why != "user_disabled" {
		t.Errorf("a disabled user's session ended by %q, want user_disabled", why)
	}
	_, err := b.callback(t, b.start(t))
	w.refused(t, err, Disabled)
	row := scan[string](t, w, `SELECT issuer || ' ' || subject FROM security_audit_events WHERE reason = 'disabled'`)
	if row != w.idp.URL+" alice" {
		t.Errorf("the refusal's audit names %q, want whom it refused", row)
	}
}

// The same person has one user row, whose address and name are the newest, and whose time of authentication never goes
// back.
func TestUserIsOneRow(t *testing.T) {
	w := newWorld(t)
	now := time.Now().Unix()
	w.idp.claims = claim1("auth_time", now-5)
	first := w.newBrowser().signedIn(t)
	w.idp.claims = func(c map[string]any) {
		c["auth_time"], c["email"], c["email_verified"] = now-60, "new@example.com", "true"
	}
	second := w.newBrowser().signedIn(t)
	if first.UserID != second.UserID || second.Email != "new@example.com" || second.EmailVerified {
		t.Errorf("second sign-in = %+v, want the same user with a new, unverified address", second)
	}
	if got := scan[int64](t, w, `SELECT last_auth_time_s FROM users`); got != now-5 {
		t.Errorf("last_auth_time_s = %d, want the newest, %d", got, now-5)
	}
}

func claim1(name string, value any) func(map[string]any) {
	return func(c map[string]any) { set(c, name, value) }
}

func TestAuthenticatedAt(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tests := []struct {
		name, claims string
		want         int64
	}{
		{"said", `{"auth_time":1799999000,"iat":1800000000}`, 1_799_999_000},
		{"not said: no later than the token", `{"iat":1800000000}`, 1_800_000_000},
		{"a string", `{"auth_time":"1799999000","iat":1800000000}`, 1_800_000_000},
		{"in the future", `{"auth_time":1800000061,"iat":1800000000}`, 0},
		{"a fraction", `{"auth_time":1799999000.5,"iat":1800000000}`, 1_800_000_000},
		{"negative", `{"auth_time":-5,"iat":1800000000}`, 1_800_000_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := must(decodeClaims([]byte(tt.claims), claimNames))
			if got := authenticatedAt(c, now); got != tt.want {
				t.Errorf("authenticatedAt(%s) = %d, want %d", tt.claims, got, tt.want)
			}
		})
	}
}

// Targets that browsers take for another site are never followed, for a route is a name.
func TestRouteIsNoURL(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	for _, target := range []string{"//evil", `/\evil`, "https:evil", "/%5cevil", "https://evil.example", "", "a b", "run\x00"} {
		if _, err := w.signIn.Start(t.Context(), b.binder(), Route{Name: target, IDs: map[string]string{"id": "1"}}, testFrom); err == nil {
			t.Errorf("Start(%q) accepts a route that is no name", target)
		}
	}
}
