package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestCommitAdmitsOnce(t *testing.T) {
	w := newWorld(t, "one")
	cursor := w.due("one", time.Second)
	c := w.claimOne("a")
	r := w.commitOf(c)[0]
	if r.Outcome != Admitted || r.RunID == uuid.Nil || r.LatenessMS < 1000 {
		t.Fatalf("commit = %+v, want admitted with an id and at least 1000 ms late", r)
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	got := value[string](w, `SELECT concat_ws(' ', r.status, r.trigger_type, r.execution_origin, r.execution_owner, r.scheduled_for_ms, r.event_sequence,
		a.status, a.executor_type, string_agg(e.type, ',' ORDER BY e.sequence), r.idempotency_key)
		FROM runs r JOIN run_attempts a ON a.run_id = r.id JOIN run_events e ON e.run_id = r.id GROUP BY r.id, a.id`)
	want := fmt.Sprintf("queued cron scheduled runtime %d 2 claimed remote_worker run.created,run.queued ql3:cron:v1:one:1:%d", cursor, cursor)
	if got != want {
		t.Errorf("the Run is\n%s, want\n%s", got, want)
	}
	free := value[bool](w, `SELECT num_nonnulls(claim_owner, claim_token, claim_expires_at_ms) = 0 AND last_scheduled_at_ms = $1
		AND state_version = $2 AND next_fire_at_ms > $1 FROM trigger_schedules`, cursor, c.StateVersion+1)
	if !free {
		t.Errorf("after the commit the schedule is %s, want advanced and free", w.row("one"))
	}
	if r := w.commitOf(c)[0]; r.Outcome != Raced {
		t.Errorf("the same commit again = %+v, want raced", r)
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written after the second commit (-want +got):\n%s", diff)
	}
}

// Each part of the fence is changed alone between claim and commit. The name is the part that must notice.
func TestCommitRefusesABrokenFence(t *testing.T) {
	const schedule = `UPDATE trigger_schedules SET `
	tests := []struct {
		part string
		sql  []string
	}{
		{"claim owner", []string{schedule + `claim_owner = 'b'`}},
		{"claim gone", []string{schedule + `claim_token = gen_random_uuid()`}},
		{"claim gone", []string{schedule + `claim_version = claim_version + 1`}},
		{"claim gone", []string{schedule + `claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL`}},
		{"claim expiry", []string{schedule + `claim_expires_at_ms = claim_expires_at_ms + 1`}},
		{"claim acquired at", []string{schedule + `updated_at_ms = updated_at_ms - 1`}},
		{"state version", []string{schedule + `state_version = state_version + 1`}},
		{"schedule enabled", []string{`ALTER TABLE trigger_schedules DROP CONSTRAINT schedule_only_enabled_is_claimed`, schedule + `enabled = false`}},
		{"cursor", []string{schedule + `next_fire_at_ms = next_fire_at_ms - 1`}},
		{"catch up", []string{schedule + `catch_up = true`}},
		{"cursor", []string{schedule + `next_fire_at_ms = NULL`}},
		{"project status", []string{`UPDATE projects SET status = 'archived'`}},
		{"project version", []string{`UPDATE projects SET version = version + 1`}},
		{"trigger revision", []string{`UPDATE triggers SET current_revision = 2`}},
		{"schedule revision", []string{`INSERT INTO trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
			SELECT project_id, trigger_id, 2, content, content_digest, created_at_ms FROM trigger_revisions`, schedule + `trigger_revision = 2`}},
		{"trigger enabled", []string{`ALTER TABLE trigger_revisions ALTER enabled DROP EXPRESSION`, `UPDATE trigger_revisions SET enabled = false`}},
		{"trigger digest", []string{`ALTER TABLE trigger_revisions DROP CONSTRAINT trigger_digest_matches`, `UPDATE trigger_revisions SET content_digest = 'x'`}},
		{"trigger digest", []string{`ALTER TABLE trigger_revisions DROP CONSTRAINT trigger_digest_matches`, `UPDATE trigger_revisions SET content = content || ' '`}},
		{"trigger digest", []string{`UPDATE trigger_revisions SET content = content || ' ', content_digest = content_digest('qinglong.trigger-definition.v1', content || ' ')`}},
		{"task", []string{`ALTER TABLE trigger_revisions ALTER task_id DROP EXPRESSION`, `ALTER TABLE task_definition_revisions DROP CONSTRAINT task_content_names_itself`,
			`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_content_names_its_task`, `UPDATE trigger_revisions SET task_id = 'other'`,
			`UPDATE task_definition_revisions SET task_id = 'other'`, `UPDATE task_execution_revisions SET task_id = 'other'`}},
		{"task revision", []string{`ALTER TABLE trigger_revisions ALTER task_revision DROP EXPRESSION`,
			`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_content_names_its_task`, `UPDATE trigger_revisions SET task_revision = 2`,
			`UPDATE task_definition_revisions SET revision = 2`, `UPDATE task_execution_revisions SET task_revision = 2`}},
		{"task digest", []string{`ALTER TABLE trigger_revisions ALTER task_content_digest DROP EXPRESSION`, `UPDATE trigger_revisions SET task_content_digest = 'x'`}},
		{"task digest", []string{`ALTER TABLE task_definition_revisions DROP CONSTRAINT task_digest_matches`, `UPDATE task_definition_revisions SET content_digest = 'x'`}},
		{"execution revision", []string{`ALTER TABLE task_execution_revisions ALTER id DROP EXPRESSION`, `UPDATE task_execution_revisions SET id = 'x'`}},
		{"execution digest", []string{`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_digest_matches`, `UPDATE task_execution_revisions SET content_digest = 'x'`}},
		{"execution digest", []string{`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_digest_matches`, `UPDATE task_execution_revisions SET content = content || ' '`}},
		{"execution digest", []string{`UPDATE task_execution_revisions SET content = content || ' ', content_digest = content_digest('qinglong.task-execution.v1', content || ' ')`}},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%02d %s", i, tt.part), func(t *testing.T) {
			w := newWorld(t, "one")
			w.due("one", time.Second)
			c := w.claimOne("a")
			for _, sql := range tt.sql {
				w.exec(sql)
			}
			// An UPDATE moves the row; a fence that only looked the ctid up would always find it gone.
			c.tid = tidOf(w, "one")
			before := w.row("one")
			r := w.commitOf(c)[0]
			if r.Outcome != Raced || r.Reason != tt.part {
				t.Errorf("commit = %+v, want raced by %q", r, tt.part)
			}
			if diff := cmp.Diff(written{}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if after := w.row("one"); after != before {
				t.Errorf("the schedule went from\n%s to\n%s", before, after)
			}
			if n := w.events("raced"); n != 1 {
				t.Errorf("%d raced events, want 1", n)
			}
		})
	}
}

// The database finds a row by ctid, token and version before the comparison in Go begins; here the comparison alone.
func TestBrokenComparesEveryPart(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	job := decided(t, w.claimOne("a"))[0]
	tx, err := w.runtime.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	found, err := lock(t.Context(), tx, []work{job})
	if err != nil || found[0] == nil {
		t.Fatalf("lock = %v, %v", found, err)
	}
	if reason := broken(job, found[0]); reason != "" {
		t.Fatalf("broken = %q of an intact fence", reason)
	}
	changes := map[string]func(*work, *fence){
		"project":                  func(_ *work, f *fence) { f.projectID = "q" },
		"trigger":                  func(_ *work, f *fence) { f.triggerID = "two" },
		"claim token":              func(_ *work, f *fence) { f.token = uuid.New() },
		"claim version":            func(_ *work, f *fence) { f.version++ },
		"claim expired":            func(_ *work, f *fence) { f.nowMS = f.expiresAtMS },
		"database clock went back": func(_ *work, f *fence) { f.nowMS = f.acquiredAtMS - 1 },
		"decision observed":        func(w *work, _ *fence) { w.decision.ObservedMS++ },
		"decision candidate":       func(w *work, _ *fence) { w.decision.DueMS++ },
		"decision next":            func(w *work, _ *fence) { w.decision.NextMS = w.decision.ObservedMS },
	}
	for want, change := range changes {
		job, now := job, *found[0]
		change(&job, &now)
		if got := broken(job, &now); got != want {
			t.Errorf("broken = %q, want %q", got, want)
		}
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	tests := []struct{ name, trigger string }{
		{"the Run", `CREATE TRIGGER x BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION public.refuse()`},
		{"the Attempt", `CREATE TRIGGER x BEFORE INSERT ON run_attempts FOR EACH ROW EXECUTE FUNCTION public.refuse()`},
		{"run.created", `CREATE TRIGGER x BEFORE INSERT ON run_events FOR EACH ROW WHEN (NEW.sequence = 1) EXECUTE FUNCTION public.refuse()`},
		{"run.queued", `CREATE TRIGGER x BEFORE INSERT ON run_events FOR EACH ROW WHEN (NEW.sequence = 2) EXECUTE FUNCTION public.refuse()`},
		{"the cursor", `CREATE TRIGGER x BEFORE UPDATE ON trigger_schedules FOR EACH ROW EXECUTE FUNCTION public.refuse()`},
		{"the account", `CREATE TRIGGER x BEFORE INSERT ON schedule_events FOR EACH ROW EXECUTE FUNCTION public.refuse()`},
		{"COMMIT itself", `CREATE CONSTRAINT TRIGGER x AFTER INSERT ON runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.refuse()`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.due("one", 800*24*time.Hour) // passes over occurrences, so that the account is written too
			c := w.claimOne("a")
			before := w.row("one")
			w.exec(refuse)
			w.exec(tt.trigger)
			if r := w.commitOf(c)[0]; r.Outcome != Failed {
				t.Errorf("commit = %+v, want failed", r)
			}
			if diff := cmp.Diff(written{}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if after := w.row("one"); after != before {
				t.Errorf("the schedule went from\n%s to\n%s", before, after)
			}
			w.exec(`DROP FUNCTION public.refuse CASCADE`)
			if r := w.commitOf(c)[0]; r.Outcome != Admitted {
				t.Errorf("commit without the fault = %+v, want admitted", r)
			}
		})
	}
}

// A serialization failure or a deadlock is repeated, whole, until it succeeds. The fault counts in a sequence, which no
// rollback takes back.
func TestCommitRepeatsWhatWasRolledBack(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, "one", "two", "three")
			for _, id := range []string{"one", "two", "three"} {
				w.due(id, time.Second)
			}
			w.exec(`CREATE SEQUENCE public.faults`)
			w.exec(`GRANT USAGE ON SEQUENCE public.faults TO PUBLIC`)
			w.exec(`CREATE FUNCTION public.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('public.faults') <= 5 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '` + code + `'; END IF; RETURN NEW; END $$`)
			w.exec(`CREATE TRIGGER x BEFORE INSERT ON run_events FOR EACH ROW WHEN (NEW.sequence = 2) EXECUTE FUNCTION public.fault()`)
			for i, r := range w.commitOf(w.claim("a", 16)...) {
				if r.Outcome != Admitted {
					t.Errorf("commit[%d] = %+v, want admitted", i, r)
				}
			}
			if diff := cmp.Diff(written{3, 3, 6}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if n := value[int](w, `SELECT last_value FROM public.faults`); n < 6 {
				t.Errorf("%d tries, want at least 6", n)
			}
		})
	}
}

func TestCommitGivesUpAtItsDeadline(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	w.exec(`CREATE FUNCTION public.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END $$`)
	w.exec(`CREATE TRIGGER x BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION public.fault()`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r := commit(ctx, w.runtime, decided(t, c))[0]; r.Outcome != Failed {
		t.Errorf("commit = %+v, want failed", r)
	}
	if diff := cmp.Diff(written{}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// An occurrence that has its Run is no error (23505 would abort the whole batch): its cursor advances, nothing else is
// written, and its neighbours in the batch are admitted.
func TestCommitLeavesAnAdmittedOccurrenceAlone(t *testing.T) {
	w := newWorld(t, "one", "two")
	cursor := w.due("one", 2*time.Second)
	w.commitOf(w.claimOne("a"))
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = $1 WHERE trigger_id = 'one'`, cursor) // as a restored backup would
	w.due("two", time.Second)
	results := w.commitOf(w.claim("a", 16)...)
	if results[0].Outcome != Already || results[1].Outcome != Admitted {
		t.Errorf("commit = %+v, want already_admitted and admitted", results)
	}
	if diff := cmp.Diff(written{2, 2, 4}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if next := value[int64](w, `SELECT next_fire_at_ms FROM trigger_schedules WHERE trigger_id = 'one'`); next <= cursor {
		t.Errorf("cursor = %d, want after %d", next, cursor)
	}
}

// refuse makes a function that refuses a row.
const refuse = `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '23514'; END $$`

// What a commit reads of Schedules and writes leaves no predicate lock, however many there are on a page: else two
// commits beside one another would always be in each other's way.
func TestCommitLeavesNoPredicateLockOnSchedules(t *testing.T) {
	w := newWorld(t, backlogIDs(64)...)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
	list := decided(t, w.claim("a", 64)...)
	err := pg.TryTx(t.Context(), w.runtime, func(tx pgx.Tx) error {
		if _, err := lock(t.Context(), tx, list); err != nil {
			return err
		}
		locks := pgtest.Value[[]string](t, tx, `SELECT array_agg(DISTINCT relation::regclass::text) FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid()`)
		if !slices.Contains(locks, "triggers") || slices.Contains(locks, "trigger_schedules") {
			t.Errorf("after locking 64 Schedules there are predicate locks on %v, want them on triggers and none on trigger_schedules", locks)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// backlogIDs names n Triggers.
func backlogIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("t%03d", i))
	}
	return ids
}

// The database refuses one of a batch, in its statement or only at COMMIT: the others are admitted.
func TestCommitFailsOnlyTheRefusedOfABatch(t *testing.T) {
	for name, trigger := range map[string]string{
		"in its statement": `CREATE TRIGGER x BEFORE INSERT ON runs FOR EACH ROW WHEN (NEW.trigger_id = 't002') EXECUTE FUNCTION public.refuse()`,
		"at COMMIT": `CREATE CONSTRAINT TRIGGER x AFTER INSERT ON runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (NEW.trigger_id = 't002') EXECUTE FUNCTION public.refuse()`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, backlogIDs(5)...)
			w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
			claims := w.claim("a", 16)
			w.exec(refuse)
			w.exec(trigger)
			for i, r := range w.commitOf(claims...) {
				want := Admitted
				if claims[i].TriggerID == "t002" {
					want = Failed
				}
				if r.Outcome != want {
					t.Errorf("commit of %s = %+v, want %s", claims[i].TriggerID, r, want)
				}
			}
			if diff := cmp.Diff(written{4, 4, 8}, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommitDropsOnlyTheRacedOfABatch(t *testing.T) {
	w := newWorld(t, "one", "two", "three")
	for _, id := range []string{"one", "two", "three"} {
		w.due(id, time.Second)
	}
	claims := w.claim("a", 16)
	w.exec(`UPDATE trigger_schedules SET state_version = state_version + 1 WHERE trigger_id = $1`, claims[1].TriggerID)
	results := w.commitOf(claims...)
	got := []Outcome{results[0].Outcome, results[1].Outcome, results[2].Outcome}
	if diff := cmp.Diff([]Outcome{Admitted, Raced, Admitted}, got); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(written{2, 2, 4}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestCommitRecordsWhatBecameNothing(t *testing.T) {
	tests := []struct {
		name, misfire string
		cursorAgo     time.Duration
		never         bool
		outcome       Outcome
		want          []string
	}{
		{name: "skip", misfire: "skip", cursorAgo: 10 * time.Minute, outcome: Skipped, want: []string{"skipped 1"}},
		{name: "skip and passed over", misfire: "skip", cursorAgo: 800 * 24 * time.Hour, outcome: Skipped, want: []string{"skipped 1", "coalesced 2"}},
		{name: "fire_once and passed over", misfire: "fire_once", cursorAgo: 800 * 24 * time.Hour, outcome: Admitted, want: []string{"coalesced 2"}},
		{name: "first cursor", misfire: "skip", never: true, outcome: Initialized, want: []string{"initialized 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "one")
			if tt.misfire == "skip" {
				w.publish(misfireSkip(manifest("one")))
			}
			w.due("one", tt.cursorAgo)
			if tt.never {
				w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = NULL`)
			}
			w.exec(`TRUNCATE schedule_events`)
			if r := w.commitOf(w.claimOne("a"))[0]; r.Outcome != tt.outcome {
				t.Errorf("commit = %+v, want %s", r, tt.outcome)
			}
			got := value[[]string](w, `SELECT array_agg(type || ' ' || instants ORDER BY id) FROM schedule_events`)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

// The plans that keep SERIALIZABLE free of false conflicts: no index page of trigger_schedules is read.
func TestCommitFindsItsRowsByCtid(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	tids, tokens := []pgtype.TID{c.tid}, []uuid.UUID{c.Token}
	plans := map[string][]string{
		"lock":    explain(t, w.runtime, "EXPLAIN "+lockSQL, tids, tokens, []int64{c.Version}),
		"advance": explain(t, w.runtime, "EXPLAIN "+advanceSQL, tids, tokens, []int64{1}, []*int64{nil}, []int64{1}),
	}
	for name, lines := range plans {
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "Tid Scan on trigger_schedules s") || strings.Contains(plan, "trigger_schedules_pkey") {
			t.Errorf("%s does not find its rows by ctid:\n%s", name, plan)
		}
	}
}

func tidOf(w *world, trigger string) (tid pgtype.TID) {
	return value[pgtype.TID](w, `SELECT ctid FROM trigger_schedules WHERE trigger_id = $1`, trigger)
}

func misfireSkip(manifest string) string { return strings.ReplaceAll(manifest, "fire_once", "skip") }
