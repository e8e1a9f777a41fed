package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web/live"
)

// A watcher reads one stream.
type watcher struct {
	t      *testing.T
	status int
	lines  *bufio.Scanner
}

// event is what a stream sent; at the end of the stream there is none.
type event struct {
	id string
	fragment
}

// watch opens the stream of target, from the state that last names on.
func watch(t *testing.T, h http.Handler, target, last string) *watcher {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", last)
	r.Header.Set("Sec-Fetch-Dest", "empty") // as browsers say of a script's request
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	w := &watcher{t: t, status: res.StatusCode, lines: bufio.NewScanner(res.Body)}
	w.lines.Buffer(nil, 1<<20)
	return w
}

// next waits for the next event, and reports false at the end of the stream.
func (w *watcher) next() (e event, ok bool) {
	w.t.Helper()
	for w.lines.Scan() {
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.fragment); err != nil {
				w.t.Fatal(err)
			}
			return e, true
		}
	}
	return e, false
}

// nextOf waits for the next event of one part.
func (w *watcher) nextOf(name string) (e event, ok bool) {
	w.t.Helper()
	for e, ok = w.next(); ok && e.Name != name; {
		e, ok = w.next()
	}
	return e, ok
}

// stateOf is the state in which a page was made.
func stateOf(t *testing.T, page answered) string {
	t.Helper()
	m := regexp.MustCompile(`data-stream="([^"]+)"`).FindStringSubmatch(page.body)
	if m == nil {
		t.Fatalf("the page names no state: %s", page.body)
	}
	return m[1]
}

func TestStreamSendsWhatHasChanged(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c)
	before := get(t, h, "/runs")
	s := watch(t, h, "/runs", stateOf(t, before))
	admitted := runtest.Admit(t, w.Database, "ops", "nightly", w.nowMS+1, w.nowMS+1)
	c.Live.Hint()
	e, ok := s.nextOf("rows")
	if !ok || !strings.Contains(e.HTML, admitted.String()) {
		t.Fatalf("the stream sent %+v, %v, want the rows with the new Run", e, ok)
	}
	if after := stateOf(t, get(t, h, "/runs")); !strings.Contains(e.id+",", "rows=") || !strings.Contains(after, partOf(e.id, "rows")) {
		t.Errorf("the event's id is %q, the page's state %q", e.id, after)
	}
	runtest.Execute(t, w.Database, run.Outcome{Status: run.Succeeded})
	c.Live.Hint()
	for ok && !strings.Contains(e.HTML, "succeeded") {
		e, ok = s.nextOf("rows")
	}
	if !ok {
		t.Error("the stream ended before it told that the Run had succeeded")
	}
}

// partOf is one part of a state.
func partOf(state, name string) string {
	for part := range strings.SplitSeq(state, ",") {
		if strings.HasPrefix(part, name+"=") {
			return part
		}
	}
	return "nothing"
}

// A reader that was away is sent what it missed, and all of a page whose state it cannot name.
func TestStreamGoesOnFromAState(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c)
	old := stateOf(t, get(t, h, "/runs"))
	admitted := runtest.Admit(t, w.Database, "ops", "nightly", w.nowMS+1, w.nowMS+1)
	for name, last := range map[string]string{"what it missed": old, "everything": "", "everything, of a state that makes no sense": "rows=\t;,="} {
		e, ok := watch(t, h, "/runs", last).nextOf("rows")
		if !ok || !strings.Contains(e.HTML, admitted.String()) {
			t.Errorf("%s: the stream did not send the new Run", name)
		}
	}
}

func TestStreamEndsWithWhatItNeeds(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name string
		end  func(t *testing.T, c Config, p person)
	}{
		{"the session", func(t *testing.T, _ Config, p person) {
			pgtest.Exec(t, w.Super(t), `UPDATE ql3.console_sessions SET revoked_at_ms = created_at_ms, revoke_reason = 'signed_out' WHERE user_id = $1`, p.id)
		}},
		{"the role", func(t *testing.T, _ Config, p person) {
			if _, err := policy.Revoke(t.Context(), w.Pool(t, migrations.RoleAdmin), policy.RevokeRequest{Project: "ops", User: p.id, MutationID: uuid.New(),
				Actor: policy.Actor{Type: policy.ByCommand, Name: "test"}}); err != nil {
				t.Fatal(err)
			}
		}},
		{"the replica", func(_ *testing.T, c Config, _ person) { c.Live.Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, w.Database, "")
			p := signIn(t, c, "somebody who loses "+tt.name)
			grant(t, w.Database, p, "viewer", "ops")
			h := p.as(New(c))
			s := watch(t, h, "/runs/"+w.failed.String(), stateOf(t, get(t, h, "/runs/"+w.failed.String())))
			tt.end(t, c, p)
			c.Live.Hint()
			if e, ok := s.next(); ok {
				t.Errorf("the stream went on with %+v", e)
			}
		})
	}
}

func TestStreamsAreRefused(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c, "growth")
	if s := watch(t, h, "/runs/"+w.failed.String(), ""); s.status != http.StatusNotFound {
		t.Errorf("a stream of a Run that its reader may not see = %d, want 404", s.status)
	}
	if s := watch(t, h, "/runs?status=nonsense", ""); s.status != http.StatusBadRequest {
		t.Errorf("a stream of a page that there is not = %d, want 400", s.status)
	}
	for range live.PerUser {
		if s := watch(t, h, "/runs", ""); s.status != http.StatusOK {
			t.Fatalf("a stream that one may have = %d", s.status)
		}
	}
	if s := watch(t, h, "/runs", ""); s.status != http.StatusTooManyRequests {
		t.Errorf("one stream too many = %d, want 429", s.status)
	}
	if s := watch(t, New(c), "/runs", ""); s.status != http.StatusUnauthorized {
		t.Errorf("a stream without a session = %d, want 401", s.status)
	}
}

// unanswering holds what every session is read from until t ends, so that nothing that asks for one is answered.
func (w world) unanswering(t *testing.T) {
	t.Helper()
	w.locked(t, "console_sessions")
}

// locked holds table, so that nobody reads it, until release is called or t ends.
func (w world) locked(t *testing.T, table string) (release func()) {
	t.Helper()
	tx, err := w.Super(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	pgtest.Exec(t, tx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	pgtest.Exec(t, tx, "LOCK TABLE ql3."+table+" IN ACCESS EXCLUSIVE MODE")
	return func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A database that is there and does not answer holds up no stream for longer than a page: neither one that goes on, nor
// one that has not begun. One that its replica ends does not wait for it at all.
func TestStreamsDoNotWaitForADatabase(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c)
	going := watch(t, h, "/runs", stateOf(t, get(t, h, "/runs")))
	w.unanswering(t)
	c.Live.Hint()
	ended, began := make(chan time.Duration), time.Now()
	go func() {
		_, ok := going.next()
		for ok {
			_, ok = going.next()
		}
		ended <- time.Since(began)
	}()
	if s := watch(t, h, "/runs", ""); s.status != http.StatusServiceUnavailable {
		t.Errorf("a stream that cannot begin = %d, want 503", s.status)
	}
	if late := time.Since(began); late > 2*requestTime {
		t.Errorf("it was answered after %s", late)
	}
	if late := <-ended; late > 2*requestTime {
		t.Errorf("the stream went on for %s", late)
	}
}

func TestStreamEndsWithItsReplicaAtOnce(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c)
	s := watch(t, h, "/runs", stateOf(t, get(t, h, "/runs")))
	w.unanswering(t)
	super := w.Super(t)
	c.Live.Hint()
	blocked := func() (n int) {
		if err := super.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for blocked() == 0 {
		runtime.Gosched()
	}
	began := time.Now()
	c.Live.Close()
	if _, ok := s.next(); ok || time.Since(began) > requestTime/2 {
		t.Errorf("the stream went on for %s", time.Since(began))
	}
}

// However long a page that costs much rests, its session is looked at again within a beat.
func TestRestIsNoLongerThanABeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := live.New()
		sub, err := hub.Subscribe(uuid.New())
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name       string
			rest, want time.Duration
			hint       bool
		}{
			{"nothing changes", leastGap, beatEvery, false},
			{"a change while it rests", 3 * time.Second, 3 * time.Second, true},
			{"a change, and a page that costs much", time.Hour, beatEvery, true},
		} {
			if tt.hint {
				hub.Hint()
			}
			began := time.Now()
			if err := awaitChange(t.Context(), sub, tt.rest); err != nil || time.Since(began) != tt.want {
				t.Errorf("%s: awaitChange() = %v after %s, want %s", tt.name, err, time.Since(began), tt.want)
			}
		}
	})
}
