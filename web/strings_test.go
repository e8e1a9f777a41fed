package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
)

const (
	astronaut = "👩‍🚀"
	nasty     = "=1+1 <b onmouseover=alert(1)>\u202egnp.exe\u2066\x1b[31m\a\x7f" + astronaut + "]]> --> &amp; [a](https://evil.example) `"
)

// newNasty is an operator's console in which every string that somebody else may write is nasty, a retry of the failed
// Run, and a Run that may be stopped.
func newNasty(t *testing.T) (o *operator, retry, running uuid.UUID) {
	o = newOperator(t, policy.Owner, "ops")
	running = runtest.Admit(t, o.Database, "ops", "nightly", o.nowMS+1000, o.nowMS+1000)
	f := o.proves(policy.RetryRun, o.failed).form(o.failed)
	if res := o.post(o.path(retrying), f); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST = %d:\n%s", res.StatusCode, res.body)
	}
	retry = *o.source(o.failed).NewestRetry
	changes := map[string][]any{
		`UPDATE ql3.runs SET task_name = $1`:                                                                                       {nasty + taskName},
		`UPDATE ql3.runs SET error_summary = $1 WHERE status = 'failed'`:                                                           {nasty + runSummary},
		`UPDATE ql3.run_attempts SET worker_id = $1 WHERE worker_id IS NOT NULL`:                                                   {nasty + workerName},
		`UPDATE ql3.run_attempts SET error_summary = $1 WHERE status = 'failed'`:                                                   {nasty + itsSummary},
		`UPDATE ql3.run_events SET actor_id = $1 WHERE actor_type <> 'user'`:                                                       {nasty + strings.Repeat("i", 10_000)},
		`UPDATE ql3.run_events SET payload = payload || jsonb_build_object('reason', $1::text) WHERE run_id = $2 AND sequence = 1`: {nasty + theReason, retry},
		`UPDATE ql3.users SET name = $1`:                                                                                           {nasty + personName},
	}
	err := pg.InTx(t.Context(), o.Super(t), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil { // ended Runs refuse writes
			return err
		}
		for sql, args := range changes {
			if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.proves(policy.RetryRun, o.failed)
	return o, retry, running
}

// notText says what of nasty a page lets through as something else than text.
func notText(body string) string {
	for _, bad := range []string{"<b onmouseover", "\u202e", "\u2066", "\x1b", "\a", "\x7f"} {
		if strings.Contains(body, bad) {
			return bad
		}
	}
	return ""
}

// Strings that are long enough to tell whole from shortened.
var (
	taskName   = strings.Repeat("n", 10_000)
	workerName = strings.Repeat("w", 10_000)
	theReason  = strings.Repeat("r", 10_000)
	runSummary = strings.Repeat("s", 800)
	itsSummary = strings.Repeat("a", 800)
	personName = strings.Repeat("u", 100)
)

func TestStringsShowAsText(t *testing.T) {
	o, retry, running := newNasty(t)
	tests := []struct {
		name, target string
		whole        []string
		cut          []string // not shown beyond what a list has room for
	}{
		{"a Run", "/runs/" + o.failed.String(), []string{taskName, workerName, runSummary, itsSummary}, []string{theReason[:listText], personName}},
		{"a Run in a frame", "/runs/" + o.failed.String() + "?view=embed", []string{taskName}, nil},
		{"a retry", "/runs/" + retry.String(), []string{taskName, theReason, personName}, nil},
		{"before a verification", "/runs/" + running.String() + "/stop", []string{taskName}, nil},
		{"a preview", o.path(retrying), []string{taskName}, []string{theReason[:listText], personName}},
		{"the account", "/account", nil, []string{personName}},
		{"the list of Runs", "/runs", nil, []string{taskName[:listText], runSummary[:listText]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := o.get(tt.target)
			if res.StatusCode != http.StatusOK || !strings.Contains(res.body, astronaut) {
				t.Fatalf("GET %s = %d, without the names that it is about", tt.target, res.StatusCode)
			}
			if bad := notText(res.body); bad != "" {
				t.Errorf("GET %s lets %q through", tt.target, bad)
			}
			for _, want := range tt.whole {
				if !strings.Contains(res.body, want) {
					t.Errorf("GET %s does not show %s… whole", tt.target, want[:3])
				}
			}
			for _, unwanted := range tt.cut {
				if strings.Contains(res.body, unwanted) {
					t.Errorf("GET %s does not shorten %s…", tt.target, unwanted[:3])
				}
			}
		})
	}
}

// What machines read is what is stored, and harmless to what reads it.
func TestStringsInOtherMedia(t *testing.T) {
	o, _, _ := newNasty(t)
	var d struct{ TaskName, ErrorSummary string }
	if err := json.Unmarshal([]byte(o.get("/runs/"+o.failed.String()+".json").body), &d); err != nil || d.TaskName != nasty+taskName || d.ErrorSummary != nasty+runSummary {
		t.Errorf("the JSON of the Run (%v) has other strings than the database", err)
	}
	rows, err := csv.NewReader(strings.NewReader(o.get("/runs.csv").body)).ReadAll()
	if err != nil || !slices.ContainsFunc(rows, func(row []string) bool { return slices.Contains(row, "'"+nasty+taskName) }) {
		t.Errorf("the CSV of Runs (%v) has no cell with the name, made harmless", err)
	}
	page := o.get("/runs/" + o.failed.String())
	_, rest, _ := strings.Cut(page.body, `data-copy="**`)
	line, _, _ := strings.Cut(rest, `"`)
	for _, want := range []string{`\&lt;b onmouseover`, `\[a\]\(https://evil.example\)`, "\\`", "https://console.example/runs/" + o.failed.String()} {
		if !strings.Contains(line, want) {
			t.Errorf("the Markdown of the Run lacks %s:\n%.400s", want, line)
		}
	}
	stream := watch(t, o.handler(), "/runs/"+o.failed.String(), "")
	for seen := map[string]bool{}; len(seen) < 9; {
		e, ok := stream.next()
		if !ok {
			t.Fatalf("the stream ended after %v", seen)
		}
		if bad := notText(e.HTML); bad != "" {
			t.Errorf("the stream's %s lets %q through", e.Name, bad)
		}
		seen[e.Name] = true
	}
}
