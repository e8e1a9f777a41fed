package oidc

import (
	"crypto/sha256"
	"encoding/hex"
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

// Many people sign in at once, each ending the session they had: none is refused for the others' sake.
func TestManySignInsAtOnce(t *testing.T) {
	w := newWorld(t)
	const n = 16
	browsers := make([]*browser, n)
	for i := range browsers {
		browsers[i] = w.newBrowser()
		w.idp.claims = claim1("sub", fmt.Sprintf("user-%d", i))
		browsers[i].signedIn(t)
	}
	w.idp.claims = nil
	var wg sync.WaitGroup
	for i, b := range browsers {
		ctx := b.load(t)
		wg.Go(func() {
			nc := newcomer{Identity: Identity{Origin: OriginOIDC, Issuer: w.idp.URL, Subject: fmt.Sprintf("user-%d", i)}, client: testFrom}
			if _, err := w.sessions.begin(ctx, httptest.NewRecorder(), nc); err != nil {
				t.Errorf("begin() = %v", err)
			}
		})
	}
	wg.Wait()
	if got := w.liveSessions(t); got != n {
		t.Errorf("%d sessions live, want %d", got, n)
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
