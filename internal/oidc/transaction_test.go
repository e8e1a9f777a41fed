package oidc

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

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
	if _, err := spend(t.Context(), tx, b.binder(), answer.Get("state"), forSignIn); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := spend(t.Context(), w.super, b.binder(), answer.Get("state"), forSignIn)
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
	pgtest.AwaitLock(t, w.super)
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
