package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

// whole is an event with every field set.
func whole() policy.AuditEvent {
	id := func(n string) *uuid.UUID { u := uuid.MustParse("00000000-0000-4000-8000-0000000000" + n); return &u }
	return policy.AuditEvent{
		ID: *id("01"), Action: "run.retry", Outcome: policy.Denied, Reason: "plan_changed",
		Actor: policy.Actor{Type: policy.ByUser, UserID: id("02"), Issuer: "https://idp.example", Subject: "alice", Name: "Alice", SessionID: id("03"),
			Peer: "10.0.0.1", Claimed: "203.0.113.7", RequestID: "request-1"},
		ProjectID: "ops", ProjectVersion: 7, Role: policy.Operator, BindingVersion: 3,
		TargetUserID: id("04"), RunID: id("05"), RunVersion: 9, MutationID: id("06"), Words: "INC-7, see https://example.org",
		ProofID: id("07"), Strength: "multi_factor", ACR: "gold", AMR: []string{"pwd", "mfa"}, AuthTimeS: 1_700_000_000, SecondFactor: "always",
		Detail: map[string]any{"expected": "a", "found": []any{"b", 2.0}},
	}
}

func (w world) audit(e policy.AuditEvent) {
	w.Helper()
	w.must(policy.WriteAudit(w.Context(), w.console, e))
}

func (w world) list(f policy.AuditFilter, after *pg.Cursor, n int) policy.AuditPage {
	w.Helper()
	page, err := policy.ListAudit(w.Context(), w.console, f, after, n)
	if err != nil {
		w.Fatalf("ListAudit(%+v) = %v", f, err)
	}
	return page
}

var everyEvent = policy.AuditFilter{Scope: policy.Scope{Everything: true}}

func TestAuditKeepsWhatIsWritten(t *testing.T) {
	least := policy.AuditEvent{Action: "sign_in.start", Outcome: policy.Allowed, Actor: policy.Actor{Type: policy.ByAnonymous}}
	leastRead := least
	leastRead.Actor.Name, leastRead.Detail = "anonymous", map[string]any{}
	hostile := least
	hostile.Actor.Claimed, hostile.Actor.RequestID, hostile.ACR, hostile.AMR = strings.Repeat("é", 900), "a\x00b\xff", "\x00", []string{"\x00"}
	hostileRead := leastRead
	hostileRead.Actor.Claimed, hostileRead.Actor.RequestID = strings.Repeat("é", 499)+"…", "a\uFFFDb\uFFFD"
	hostileRead.ACR, hostileRead.AMR = "\uFFFD", []string{"\uFFFD"}
	nameless := whole()
	nameless.ID, nameless.Actor.Name = uuid.Nil, ""
	namelessRead := nameless
	namelessRead.Actor.Name = "https://idp.example alice"
	tests := []struct {
		name        string
		write, want policy.AuditEvent
	}{
		{"everything", whole(), whole()},
		{"next to nothing", least, leastRead},
		{"what cannot be stored", hostile, hostileRead},
		{"a User without a name", nameless, namelessRead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t) // with nothing written in the same millisecond
			before := w.clock()
			w.audit(tt.write)
			got := w.list(everyEvent, nil, 1).Events[0]
			if got.CreatedAtMS < before || got.CreatedAtMS > w.clock() {
				t.Errorf("written at %d, want the database clock, from %d on", got.CreatedAtMS, before)
			}
			if tt.write.ID == uuid.Nil {
				sec, nsec := got.ID.Time().UnixTime()
				if ms := sec*1000 + nsec/1e6; got.ID.Version() != 7 || got.ID.Variant() != uuid.RFC4122 || ms != got.CreatedAtMS {
					t.Errorf("id %s of version %d and %d ms, want version 7 and %d ms", got.ID, got.ID.Version(), ms, got.CreatedAtMS)
				}
				got.ID = uuid.Nil
			}
			if diff := cmp.Diff(tt.want, got.AuditEvent); diff != "" {
				t.Errorf("ListAudit() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuditRefuses(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name string
		edit func(*policy.AuditEvent)
		want string
	}{
		{"a denial without a reason", func(e *policy.AuditEvent) { e.Reason = "" }, "audit_denied_has_reason"},
		{"a reason that is no word", func(e *policy.AuditEvent) { e.Reason = "Plan changed" }, "audit_reason_form"},
		{"an action that is no word", func(e *policy.AuditEvent) { e.Action = "retry" }, "audit_action_form"},
		{"a User without a subject", func(e *policy.AuditEvent) { e.Actor.Subject = "" }, "audit_user_is_named"},
		{"too many words", func(e *policy.AuditEvent) { e.Words = strings.Repeat("x", 501) }, "audit_words_bounded"},
		{"an unknown strength", func(e *policy.AuditEvent) { e.Strength = "strong" }, "audit_strength_known"},
	}
	for _, tt := range tests {
		e := whole()
		tt.edit(&e)
		if err := policy.WriteAudit(t.Context(), w.console, e); pg.Constraint(err) != tt.want {
			t.Errorf("%s: WriteAudit() = %v, want %s", tt.name, err, tt.want)
		}
	}
	w.wantRows("(0)", `SELECT count(*) FROM security_audit_events`)
}

// An audit row is part of the transaction that writes it, and each role that decides may write one.
func TestAuditEndsWithItsTransaction(t *testing.T) {
	w := newWorld(t)
	for _, role := range []string{migrations.RoleAdmin, migrations.RoleRunManager, migrations.RoleAuthn, migrations.RoleConsole} {
		tx, err := w.db.Pool(t, role).Begin(t.Context())
		w.must(err)
		if err := policy.WriteAudit(t.Context(), tx, whole()); err != nil {
			t.Errorf("WriteAudit() as %s = %v", role, err)
		}
		w.must(tx.Rollback(t.Context()))
	}
	w.wantRows("(0)", `SELECT count(*) FROM security_audit_events`)
	if _, err := policy.ListAudit(t.Context(), w.admin, everyEvent, nil, 1); !pg.HasCode(err, "42501") {
		t.Errorf("ListAudit() as ql3_admin = %v, want it refused", err)
	}
}

func TestListAuditFilters(t *testing.T) {
	w := newWorld(t)
	run := uuid.New()
	events := map[string]func(*policy.AuditEvent){
		"in ops":       func(e *policy.AuditEvent) { e.ProjectID = "ops" },
		"in web":       func(e *policy.AuditEvent) { e.ProjectID = "web" },
		"in nothing":   func(e *policy.AuditEvent) {},
		"of a Run":     func(e *policy.AuditEvent) { e.ProjectID, e.RunID, e.Action = "ops", &run, "run.retry" },
		"by alice":     func(e *policy.AuditEvent) { e.ProjectID, e.Actor.UserID = "ops", &alice },
		"done to her":  func(e *policy.AuditEvent) { e.ProjectID, e.TargetUserID = "web", &alice },
		"denied":       func(e *policy.AuditEvent) { e.ProjectID, e.Outcome, e.Reason = "web", policy.Denied, "forbidden" },
		"in somewhere": func(e *policy.AuditEvent) { e.ProjectID = "gone" },
	}
	for name, edit := range events {
		e := policy.AuditEvent{Action: "test.event", Outcome: policy.Allowed, Actor: byRoot, Words: name}
		edit(&e)
		w.audit(e)
	}
	of := func(projects ...string) policy.Scope { return policy.Scope{Projects: projects} }
	all := policy.Scope{Everything: true}
	tests := []struct {
		name   string
		filter policy.AuditFilter
		want   string
	}{
		{"no scope", policy.AuditFilter{}, ""},
		{"no scope, a Run", policy.AuditFilter{Run: run}, ""},
		{"everything", policy.AuditFilter{Scope: all}, "by alice, denied, done to her, in nothing, in ops, in somewhere, in web, of a Run"},
		{"one Project", policy.AuditFilter{Scope: of("ops")}, "by alice, in ops, of a Run"},
		{"two Projects", policy.AuditFilter{Scope: of("ops", "web", "none")}, "by alice, denied, done to her, in ops, in web, of a Run"},
		{"a User", policy.AuditFilter{Scope: all, User: alice}, "by alice, done to her"},
		{"a User in a Project", policy.AuditFilter{Scope: of("web"), User: alice}, "done to her"},
		{"a Run", policy.AuditFilter{Scope: all, Run: run}, "of a Run"},
		{"a Run of another Project", policy.AuditFilter{Scope: of("web"), Run: run}, ""},
		{"an action", policy.AuditFilter{Scope: all, Action: "run.retry"}, "of a Run"},
		{"an outcome", policy.AuditFilter{Scope: of("web"), Outcome: policy.Denied}, "denied"},
		{"since long ago", policy.AuditFilter{Scope: of("ops"), SinceMS: w.clock() - 60_000}, "by alice, in ops, of a Run"},
		{"until long ago", policy.AuditFilter{Scope: all, UntilMS: w.clock() - 86_400_000}, ""},
		{"since tomorrow", policy.AuditFilter{Scope: all, SinceMS: w.clock() + 86_400_000}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := &counter{Querier: w.console}
			page, err := policy.ListAudit(t.Context(), q, tt.filter, nil, 50)
			if diff := cmp.Diff(tt.want, sortedWords(page)); diff != "" || err != nil || q.queries != 1 || page.Next != nil {
				t.Errorf("ListAudit(%+v) = %v, next %v, after %d queries, want one (-want +got):\n%s", tt.filter, err, page.Next, q.queries, diff)
			}
		})
	}
}

func sortedWords(p policy.AuditPage) string {
	var words []string
	for _, e := range p.Events {
		words = append(words, e.Words)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// Pages follow on one another through equal times, and nothing written meanwhile moves what is read.
func TestListAuditPages(t *testing.T) {
	w := newWorld(t)
	for _, scope := range []policy.Scope{{Everything: true}, {Projects: []string{"ops", "web"}}} {
		w.exec(`TRUNCATE security_audit_events`)
		w.exec(`INSERT INTO security_audit_events (id, action, outcome, actor_type, actor, project_id, words, created_at_ms)
			SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'a.b', 'allowed', 'command', 'x', CASE i % 2 WHEN 0 THEN 'ops' ELSE 'web' END, i, i / 4
			FROM generate_series(0, 19) i`)
		var got []string
		var after *pg.Cursor
		for {
			page := w.list(policy.AuditFilter{Scope: scope}, after, 3)
			for _, e := range page.Events {
				got = append(got, e.Words)
			}
			if page.Next == nil {
				break
			}
			read, err := pg.ParseCursor(page.Next.String())
			if err != nil {
				t.Fatalf("ParseCursor(%s) = %v", page.Next, err)
			}
			after = &read
			w.audit(policy.AuditEvent{Action: "a.b", Outcome: policy.Allowed, Actor: byRoot, ProjectID: "ops", Words: "meanwhile"})
		}
		if diff := cmp.Diff("19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0", strings.Join(got, " ")); diff != "" {
			t.Errorf("pages of %+v (-want +got):\n%s", scope, diff)
		}
	}
}

// The newest page of a long audit is read from an index, whatever the scope, and sorts no more than it returns.
func TestListAuditReadsLittle(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO security_audit_events (id, action, outcome, actor_type, actor, project_id, created_at_ms)
		SELECT gen_random_uuid(), 'a.b', 'allowed', 'command', 'x', CASE i % 2 WHEN 0 THEN 'ops' ELSE 'web' END, i FROM generate_series(0, 49999) i`)
	w.exec(`ANALYZE security_audit_events`)
	for name, f := range map[string]policy.AuditFilter{
		"everything":   everyEvent,
		"two Projects": {Scope: policy.Scope{Projects: []string{"ops", "web"}}},
		"a Run":        {Scope: policy.Scope{Projects: []string{"ops", "web"}}, Run: uuid.New()},
		"a User":       {Scope: policy.Scope{Everything: true}, User: uuid.New()},
	} {
		e := &explainer{Querier: w.console}
		if _, err := policy.ListAudit(t.Context(), e, f, &pg.Cursor{CreatedAtMS: 30_000, ID: uuid.Max}, 50); err != nil {
			t.Fatal(err)
		}
		if e.buffers == 0 || e.buffers > 300 {
			t.Errorf("ListAudit(%s) of 50,000 events touched %d pages, want at most 300:\n%s", name, e.buffers, e.plan)
		}
	}
}

// An explainer runs each query twice: once to see how many pages it touches.
type explainer struct {
	pg.Querier
	buffers int
	plan    string
}

func (e *explainer) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.Querier.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plan = strings.Join(lines, "\n")
	for _, word := range strings.Fields(e.plan[strings.Index(e.plan, "Buffers: "):]) {
		if n := 0; !strings.HasPrefix(word, "(") {
			if _, err := fmt.Sscanf(word, "hit=%d", &n); err == nil {
				e.buffers = n // the topmost node counts all below it
				break
			}
		}
	}
	return e.Querier.Query(ctx, sql, args...)
}
