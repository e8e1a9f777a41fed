package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
)

// What an address may hold is anything.
func TestHostileAddresses(t *testing.T) {
	w := newWorld(t)
	h := w.handler(t, "")
	tests := []struct {
		name, target string
		status       int
		says, never  string
	}{
		{"a name that is no text", "/schedules/ops/%00", 404, "Not found", ""},
		{"a Project that is no text", "/schedules/%FF/nightly", 404, "Not found", ""},
		{"an account of what is no text", "/schedules/ops/a%00/account.csv", 404, "", "Something went wrong"},
		{"steps upwards", "/schedules/ops/%2e%2e", 404, "No such Schedule", ""},
		{"another origin, framed", "//evil.example/x?view=embed", 404, `href="/" target="_top"`, `href="//evil`},
		{"another origin below a page", "/runs//evil.example?view=embed", 404, `href="/" target="_top"`, "//evil"},
		{"two views", "/runs?view=embed&view=evil", 400, "", "evil"},
		{"a parameter where there is none", "/claims?x=1", 400, "nor any other", "there are: ."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := get(t, h, tt.target)
			if res.StatusCode != tt.status || !strings.Contains(res.body, tt.says) || tt.never != "" && strings.Contains(res.body, tt.never) {
				t.Errorf("GET %s = %d, want %d, with %q and without %q:\n%s", tt.target, res.StatusCode, tt.status, tt.says, tt.never, res.body)
			}
		})
	}
}

// A Trigger may have a name that looks like another form of its page.
func TestTriggerNamedLikeAForm(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	h := readerOf(t, w.Database, c)
	const page = "/schedules/ops/nightly.json"
	res := get(t, h, page, "Accept", "text/html")
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/html") {
		t.Fatalf("GET %s is %s", page, got)
	}
	if e, ok := watch(t, h, page, "").next(); !ok || e.HTML == "" {
		t.Errorf("its page is not kept current: %+v, %v", e, ok)
	}
	if res := get(t, h, page+".json"); res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("GET %s.json = %d of %s: %s", page, res.StatusCode, res.Header.Get("Content-Type"), res.body)
	}
}

func TestRunbooksDoorStaysInItsFrame(t *testing.T) {
	w := newWorld(t)
	res := get(t, w.handler(t, "/x"), "/x/go/run?project=ops&trigger=nightly&at=latest-failed&view=embed")
	if got, want := res.Header.Get("Location"), "/x/runs/"+w.failed.String()+"?view=embed"; got != want {
		t.Errorf("GET /go/run in a frame leads to %q, want %q", got, want)
	}
}

// What the link says leads to is what was counted: every kind of failure.
func TestAllFailedRunsAreAllThatFailed(t *testing.T) {
	w := newWorld(t)
	if body := get(t, w.handler(t, ""), "/").body; !strings.Contains(body, `href="/runs?status=failed%2Ctimed_out%2Clost"`) {
		t.Error("the overview does not lead to all failures")
	}
}

func TestHeadOfAnExportReadsNoList(t *testing.T) {
	w := newWorld(t)
	res := do(t, w.handler(t, ""), http.MethodHead, "/runs.csv")
	if res.StatusCode != http.StatusOK || res.body != "" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("HEAD /runs.csv = %d of %s with %d bytes", res.StatusCode, res.Header.Get("Content-Type"), len(res.body))
	}
}

// Whoever opens the link of somebody else's stop did not ask for it.
func TestStopIsItsSubmittersOwn(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	queued := runtest.Admit(t, o.Database, "ops", "nightly", o.nowMS+1, o.nowMS+1)
	o.exec(`WITH asked AS (UPDATE ql3.runs SET cancel_requested_at_ms = created_at_ms, cancel_reason = 'user', version = version + 1, event_sequence = event_sequence + 1
		WHERE id = $1 RETURNING id, event_sequence, created_at_ms)
		INSERT INTO ql3.run_events (id, run_id, sequence, type, dedupe_key, actor_type, actor_id, payload, created_at_ms)
		SELECT gen_random_uuid(), id, event_sequence, 'run.cancel_requested', 'cancel_requested', 'user', $2, '{}', created_at_ms FROM asked`, queued, uuid.NewString())
	if body := o.get("/runs/" + queued.String() + "?stop=made").body; strings.Contains(body, "Your request") || !strings.Contains(body, "was asked for") {
		t.Errorf("the page tells somebody else that they asked for it:\n%s", body)
	}
}
