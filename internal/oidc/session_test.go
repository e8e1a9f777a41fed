package oidc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

func TestSessionEnds(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name string
		sql  string // what happens to the session $1
		want string
	}{
		{"nothing", `SELECT $1::uuid`, ""},
		{"idle for a second less than it may be", `UPDATE console_sessions SET last_seen_at_ms = last_seen_at_ms - idle_ms + 5000, created_at_ms = created_at_ms - idle_ms WHERE id = $1`, ""},
		{"idle for as long as it may be", `UPDATE console_sessions SET last_seen_at_ms = last_seen_at_ms - idle_ms, created_at_ms = created_at_ms - idle_ms WHERE id = $1`, "idle"},
		{"as old as it may be", `UPDATE console_sessions SET expires_at_ms = last_seen_at_ms, created_at_ms = created_at_ms - 1 WHERE id = $1`, "expired"},
		{"revoked", `UPDATE console_sessions SET revoked_at_ms = 1, revoke_reason = 'signed_out' WHERE id = $1`, "signed_out"},
		{"a newer generation", `UPDATE console_sessions SET generation = 2 WHERE id = $1`, "renewed"},
		{"its cookie's row expired", `UPDATE sessions SET expiry = current_timestamp WHERE $1::uuid IS NOT NULL`, "none"},
		{"its user disabled", `UPDATE users SET status = 'disabled' WHERE id = (SELECT user_id FROM console_sessions WHERE id = $1)`, "user_disabled"},
		{"the cookie store emptied", `DELETE FROM sessions WHERE $1::uuid IS NOT NULL`, "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.exec(t, `UPDATE users SET status = 'active'`)
			b, again := w.newBrowser(), w.newBrowser()
			before := again.signedIn(t)
			if got := again.ended(t); got != "" { // now the replica has seen its token
				t.Fatalf("ended by %q", got)
			}
			session := b.signedIn(t)
			w.exec(t, tt.sql, before.ID)
			w.exec(t, tt.sql, session.ID)
			for name, b := range map[string]*browser{"at its first request": b, "at a later request": again} {
				if got := b.ended(t); got != tt.want {
					t.Errorf("%s ended by %q, want %q", name, got, tt.want)
				}
			}
			_, err := w.sessions.Recheck(t.Context(), session)
			if wantErr := tt.want != "" && tt.want != "none"; (err != nil) != wantErr {
				t.Errorf("Recheck() = %v, want an error %v", err, wantErr)
			}
			devices, err := w.sessions.List(t.Context(), session.UserID)
			if listed := containsDevice(devices, session.ID); err != nil || listed != (tt.want == "" || tt.want == "renewed" || tt.want == "none") {
				t.Errorf("List() has it: %v, %v", listed, err)
			}
		})
	}
}

func containsDevice(devices []Device, id uuid.UUID) bool {
	for _, d := range devices {
		if d.ID == id {
			return true
		}
	}
	return false
}

// Activity is noted at most every 30 s, and only when there is any; nobody waits for a row that is held.
func TestActivity(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	session := b.signedIn(t)
	seen := func() int64 {
		return scan[int64](t, w, `SELECT last_seen_at_ms FROM console_sessions WHERE id = $1`, session.ID)
	}
	ago := func(ms int64) int64 {
		w.exec(t, `UPDATE console_sessions SET created_at_ms = 1, last_seen_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - $2 WHERE id = $1`, session.ID, ms)
		return seen()
	}

	if before := ago(20_000); b.ended(t) != "" || seen() != before {
		t.Error("activity was noted again after 20 s")
	}
	if before := seen(); w.sessions.note(t.Context(), session.ID) != nil || seen() != before {
		t.Error("activity was noted again by a request that was under way when another noted it")
	}
	before := ago(40_000)
	if _, err := w.sessions.Load(b.request(), false, nil); err != nil || seen() != before {
		t.Errorf("a page's own request was noted as activity (%v)", err)
	}
	if _, err := w.sessions.Recheck(t.Context(), session); err != nil || seen() != before {
		t.Errorf("Recheck() was noted as activity (%v)", err)
	}
	tx := must(w.super.Begin(t.Context()))
	defer tx.Rollback(t.Context())
	must(tx.Exec(t.Context(), `SELECT FROM console_sessions WHERE id = $1 FOR SHARE`, session.ID))
	if why := b.ended(t); why != "" || seen() != before {
		t.Errorf("a request during a transaction that holds the session ended by %q, or noted its activity", why)
	}
	tx.Rollback(t.Context())
	if why := b.ended(t); why != "" || seen() == before {
		t.Errorf("activity after 40 s: ended by %q, not noted", why)
	}
}

// held is a request that loaded its session and is still in flight.
type held struct {
	entered, release chan struct{}
	done             chan struct{}
}

// hold sends a request that writes to its session, as scs has it (LoadAndSave), and holds it open in between.
func (b *browser) hold(t *testing.T) held {
	t.Helper()
	h := held{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	handler := b.sessions.cookies.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(h.entered)
		<-h.release
		b.sessions.cookies.Put(r.Context(), "flash", "written late")
	}))
	go func() {
		defer close(h.done)
		handler.ServeHTTP(httptest.NewRecorder(), b.request())
	}()
	<-h.entered
	return h
}

func (h held) finish() { close(h.release); <-h.done }

// stored is what the cookie store alone says of the browser's token.
func (b *browser) stored(t *testing.T) string {
	t.Helper()
	ctx, err := b.sessions.cookies.Load(context.Background(), b.cookies.Read(b.request(), sessionCookie))
	if err != nil {
		t.Fatal(err)
	}
	return b.sessions.cookies.GetString(ctx, keyID)
}

// A request in flight while its session is signed out writes it back to the cookie store: scs alone would have revived
// it. The row keeps it dead.
func TestRequestInFlightDuringSignOut(t *testing.T) {
	w := newWorld(t)
	ends := []struct {
		name string
		end  func(*browser, context.Context) error
		want string
	}{
		{"sign-out", func(b *browser, ctx context.Context) error {
			return w.sessions.SignOut(ctx, httptest.NewRecorder(), testFrom)
		}, "signed_out"},
		{"sign-out everywhere", func(b *browser, ctx context.Context) error {
			return w.sessions.SignOutEverywhere(ctx, httptest.NewRecorder(), testFrom)
		}, "signed_out_everywhere"},
		{"another sign-in", func(b *browser, ctx context.Context) error {
			_, err := w.signIn.Callback(ctx, httptest.NewRecorder(), b.binder(), b.start(t), testFrom)
			return err
		}, "replaced"},
	}
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			b := w.newBrowser()
			session := b.signedIn(t)
			inFlight := b.hold(t)
			if err := tt.end(b, b.load(t)); err != nil {
				t.Fatal(err)
			}
			if b.stored(t) != "" {
				t.Fatal("the cookie store still has the session before the request in flight ends")
			}

			inFlight.finish()

			if b.stored(t) != session.ID.String() {
				t.Fatal("the request in flight did not write the session back: this test shows nothing")
			}
			if why := b.ended(t); why != tt.want {
				t.Errorf("after the request in flight the session ended by %q, want %q", why, tt.want)
			}
		})
	}
}

// A request in flight while the token is renewed writes the old token back. Its generation no longer counts.
func TestRequestInFlightDuringRenewal(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	session := b.signedIn(t)
	thief := &browser{world: w, jar: map[string]*http.Cookie{}}
	for name, c := range b.jar {
		thief.jar[name] = c
	}
	inFlight := thief.hold(t)
	recorder := httptest.NewRecorder()
	ctx, err := w.sessions.Renew(b.load(t), recorder)
	if err != nil {
		t.Fatalf("Renew() = %v", err)
	}
	b.keep(recorder)

	inFlight.finish()

	if thief.stored(t) != session.ID.String() {
		t.Fatal("the request in flight did not write the old token back: this test shows nothing")
	}
	if why := thief.ended(t); why != "renewed" {
		t.Errorf("the old token's session ended by %q, want renewed", why)
	}
	if now, err := b.current(t); err != nil || now.ID != session.ID || now.Generation != 2 {
		t.Errorf("Current() = %+v, %v, want the same session's next generation", now, err)
	}
	if now, err := Current(ctx); err != nil || now.Generation != 2 {
		t.Errorf("Renew()'s context has generation %d, %v, want 2", now.Generation, err)
	}
	if _, err := w.sessions.Renew(b.load(t), httptest.NewRecorder()); err != nil {
		t.Errorf("Renew() again = %v", err)
	}
	if _, err := w.sessions.Renew(ctx, httptest.NewRecorder()); !errors.Is(err, ErrSignedOut) {
		t.Errorf("Renew() from an old context = %v, want ErrSignedOut", err)
	}
}

// A token that the browser had before it signed in is worth nothing after.
func TestSessionFixation(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	ctx := b.load(t)
	w.sessions.cookies.Put(ctx, "planted", true)
	token, expiry, err := w.sessions.cookies.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	w.sessions.cookies.WriteSessionCookie(ctx, recorder, token, expiry)
	b.keep(recorder)
	b.signedIn(t)
	if now := b.cookies.Read(b.request(), sessionCookie); now == token || now == "" {
		t.Errorf("the token after the sign-in is %q, want a new one", now)
	}
}

func TestSignOut(t *testing.T) {
	w := newWorld(t)
	here, there, other := w.newBrowser(), w.newBrowser(), w.newBrowser()
	session := here.signedIn(t)
	there.signedIn(t)
	w.idp.claims = claim1("sub", "bob")
	other.signedIn(t)

	recorder := httptest.NewRecorder()
	if err := w.sessions.SignOut(here.load(t), recorder, testFrom); err != nil {
		t.Fatalf("SignOut() = %v", err)
	}
	here.keep(recorder)
	if why := here.ended(t); why != "none" {
		t.Errorf("after SignOut() the browser's session ended by %q, want none: the cookie is gone", why)
	}
	if _, err := w.sessions.Recheck(t.Context(), session); !errors.Is(err, ErrSignedOut) {
		t.Errorf("Recheck() of a stream = %v, want ErrSignedOut", err)
	}
	if there.ended(t) != "" || other.ended(t) != "" {
		t.Error("SignOut() ended another session")
	}
	if err := w.sessions.SignOut(here.load(t), httptest.NewRecorder(), testFrom); err != nil {
		t.Errorf("SignOut() without a session = %v", err)
	}

	w.idp.claims = nil
	here.signedIn(t)
	if err := w.sessions.SignOutEverywhere(here.load(t), httptest.NewRecorder(), testFrom); err != nil {
		t.Fatalf("SignOutEverywhere() = %v", err)
	}
	if why := there.ended(t); why != "signed_out_everywhere" {
		t.Errorf("the other browser's session ended by %q, want signed_out_everywhere", why)
	}
	if other.ended(t) != "" {
		t.Error("SignOutEverywhere() ended another user's session")
	}
	audit := scan[string](t, w, `SELECT string_agg(action || ' ' || (detail ->> 'sessions') || ' ' || subject, ', ' ORDER BY created_at_ms, id)
		FROM security_audit_events WHERE action LIKE 'session.sign_out%'`)
	if want := "session.sign_out 1 alice, session.sign_out_everywhere 2 alice"; audit != want {
		t.Errorf("audit = %s, want %s", audit, want)
	}
	if err := w.sessions.SignOutEverywhere(here.load(t), httptest.NewRecorder(), testFrom); !errors.Is(err, ErrSignedOut) {
		t.Errorf("SignOutEverywhere() without a session = %v, want ErrSignedOut", err)
	}
}

// Signing out takes the session's unconsumed proofs with it.
func TestSignOutRevokesProofs(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	s := b.signedIn(t)
	w.exec(t, `INSERT INTO projects (id, name, created_at_ms, updated_at_ms) VALUES ('p', 'P', 1, 1)`)
	proof := policy.Proof{ID: uuid.New(), TransactionID: uuid.New(), SessionID: s.ID, UserID: s.UserID, CookieHash: hash("x"),
		Purpose:   policy.Purpose{Action: policy.RetryRun, ProjectID: "p", Items: []policy.Item{{Run: uuid.New(), Version: 1, Digest: "d"}}},
		Assurance: policy.Assurance{Level: "hardware", Issuer: s.Issuer, Subject: s.Subject, ClientID: testClient, AuthTimeS: time.Now().Unix(), SecondFactor: "always"}}
	if err := policy.InsertProof(t.Context(), w.db.Pool(t, migrations.RoleAuthn), &proof); err != nil {
		t.Fatal(err)
	}
	if err := w.sessions.SignOut(b.load(t), httptest.NewRecorder(), testFrom); err != nil {
		t.Fatal(err)
	}
	if !scan[bool](t, w, `SELECT revoked_at_ms IS NOT NULL FROM step_up_proofs`) {
		t.Error("the proof outlives its session")
	}
}

// What is written is right for a session of the roles alone: neither token nor id of the session is in the store in plain.
func TestCookieAndStore(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.signedIn(t)
	for _, name := range []string{"__Secure-ql3_session", "__Secure-ql3_binder"} {
		c := b.jar[name]
		if c == nil {
			t.Fatalf("no cookie %s in %v", name, b.jar)
		}
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/console" || c.Domain != "" || c.MaxAge != 0 || !c.Expires.IsZero() {
			t.Errorf("cookie = %v, want Secure, HttpOnly, Lax, on the path, for the browser's session", c)
		}
	}
	rows := scan[string](t, w, `SELECT string_agg(token || ' ' || encode(data, 'escape'), ' ') FROM sessions`)
	if strings.Contains(rows, b.jar["__Secure-ql3_session"].Value) {
		t.Error("the token is in the store in plain")
	}
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.signedIn(t)
	w.exec(t, `INSERT INTO sessions VALUES ('old', '', now() - interval '1 second')`)
	w.exec(t, `INSERT INTO auth_transactions (id, kind, state_hash, nonce_hash, binder_hash, issuer, client_id, route, created_at_ms, expires_at_ms)
		SELECT gen_random_uuid(), 'sign_in', sha256(i::text::bytea), sha256('nonce'), sha256('binder'), 'issuer', 'client', '{}', 0, 600000 FROM generate_series(1, 250) AS i`)
	if err := w.sessions.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, w, `SELECT count(*) FROM sessions`); n != 1 || b.ended(t) != "" {
		t.Errorf("%d rows are left, want the live session's", n)
	}
	if n := scan[int](t, w, `SELECT count(*) FROM auth_transactions WHERE created_at_ms = 0`); n != 0 {
		t.Errorf("%d transactions are left that were over long ago", n)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	first := w.newBrowser().signedIn(t)
	w.newBrowser().signedIn(t)
	devices, err := w.sessions.List(t.Context(), first.UserID)
	if err != nil || len(devices) != 2 {
		t.Fatalf("List() = %d, %v, want 2", len(devices), err)
	}
	d := devices[1]
	if d.ID != first.ID || d.Peer != testFrom.Peer || d.Claimed != testFrom.Claimed || d.UserAgent != testFrom.UserAgent {
		t.Errorf("List()'s older one = %+v, want where it began", d)
	}
}

// Without a database there is an error, and no session; a request without a cookie asks the database nothing.
func TestNoDatabase(t *testing.T) {
	w := newWorld(t)
	b := w.newBrowser()
	b.signedIn(t)
	w.sessions.config.Console.Close()
	if ctx, err := w.sessions.Load(b.request(), true, nil); err == nil || ctx != nil {
		t.Errorf("Load() without a database = %v, %v, want an error", ctx, err)
	}
	stranger := w.newBrowser()
	if ctx, err := w.sessions.Load(stranger.request(), true, nil); err != nil {
		t.Errorf("Load() without a cookie = %v", err)
	} else if _, err := Current(ctx); !errors.Is(err, ErrSignedOut) {
		t.Errorf("Current() = %v, want ErrSignedOut", err)
	}
	if _, err := Current(context.Background()); !errors.Is(err, ErrSignedOut) {
		t.Errorf("Current() of any context = %v, want ErrSignedOut", err)
	}
}
