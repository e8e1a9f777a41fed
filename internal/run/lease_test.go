package run_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
)

func TestEndings(t *testing.T) {
	tests := []struct {
		name    string
		start   bool
		outcome run.Outcome
		want    string // status, started, exit code, error_code, error_summary; and of the last Event its payload
	}{
		{"succeeded", true, run.Outcome{Status: run.Succeeded, ExitCode: new(0)}, `succeeded t 0 - - {"exit_code": 0}`},
		{"failed", true, run.Outcome{Status: run.Failed, ExitCode: new(3), Code: "exit_code", Summary: "no billing"}, `failed t 3 exit_code no billing {"exit_code": 3, "error_code": "exit_code"}`},
		{"timed out", true, run.Outcome{Status: run.TimedOut, Code: "timed_out"}, `timed_out t - timed_out - {"error_code": "timed_out"}`},
		{"cancelled", true, run.Outcome{Status: run.Cancelled, Code: "cancelled"}, `cancelled t - cancelled - {"error_code": "cancelled"}`},
		{"failed before the start", false, run.Outcome{Status: run.Failed, Code: "secret_unavailable"}, `failed f - secret_unavailable - {"error_code": "secret_unavailable"}`},
		{"cancelled before the start", false, run.Outcome{Status: run.Cancelled}, `cancelled f - - - {}`},
		{"timed out before the start", false, run.Outcome{Status: run.TimedOut}, `timed_out f - - - {}`},
	}
	w := newWorld(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := w.admit(time.Duration(i) * time.Hour)
			work := w.dispatch()
			events := int64(4)
			if tt.start {
				w.start(work)
				events++
			}
			if err := run.Finish(t.Context(), w.runtime, work.Lease, tt.outcome); err != nil {
				t.Fatalf("Finish() = %v", err)
			}
			got := value[string](w, `SELECT concat_ws(' ', r.status, r.started_at_ms IS NOT NULL, coalesce(a.exit_code::text, '-'), coalesce(r.error_code, '-'), coalesce(r.error_summary, '-'), e.payload)
				FROM runs r JOIN run_attempts a ON a.run_id = r.id JOIN run_events e ON e.run_id = r.id AND e.sequence = r.event_sequence AND e.type = 'run.' || r.status
				WHERE r.id = $1 AND r.version = r.event_sequence - 1 AND r.event_sequence = $2 AND r.finished_at_ms = a.finished_at_ms AND e.created_at_ms = r.finished_at_ms
				AND (a.status, a.error_code, a.error_summary, a.started_at_ms) IS NOT DISTINCT FROM (r.status, r.error_code, r.error_summary, r.started_at_ms)
				AND num_nonnulls(a.lease_token, a.lease_expires_at_ms) = 0 AND a.worker_id = 'worker-1'`, id, events)
			if got != tt.want {
				t.Errorf("recorded %s, want %s", got, tt.want)
			}
			w.wantNumbered(id)
		})
	}
}

func (w *world) start(work run.Work) {
	w.t.Helper()
	if err := run.Start(w.t.Context(), w.runtime, work.Lease, 90*time.Second); err != nil {
		w.t.Fatalf("Start() = %v", err)
	}
}

func (w *world) wantNumbered(id uuid.UUID) {
	w.t.Helper()
	if wrong := value[string](w, numberingSQL, id); wrong != "" {
		w.t.Errorf("%s: %s, want 1, 2, 3 and so on", id, wrong)
	}
}

func TestStartSetsTheDeadline(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	work := w.dispatch()
	w.start(work)
	got := value[string](w, `SELECT concat_ws(' ', r.status, a.status, a.deadline_at_ms - a.started_at_ms, r.started_at_ms - a.started_at_ms, a.lease_token = $2)
		FROM runs r JOIN run_attempts a ON a.run_id = r.id WHERE r.id = $1`, id, work.Token)
	if want := "running running 90000 0 t"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

func TestRenewExtendsAndTellsOfCancellation(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	work := w.dispatch()
	w.exec(`UPDATE run_attempts SET lease_expires_at_ms = 1`) // lapsed, and nobody else has it
	before := value[int64](w, `SELECT `+pg.ClockMS)
	if cancel, err := run.Renew(t.Context(), w.runtime, work.Lease, time.Hour); cancel || err != nil {
		t.Errorf("Renew() = %t, %v, want false", cancel, err)
	}
	if expires := value[int64](w, `SELECT lease_expires_at_ms FROM run_attempts`); expires < before+3_600_000 {
		t.Errorf("lease ends at %d, want an hour after %d", expires, before)
	}
	w.start(work)
	w.exec(`UPDATE runs SET cancel_requested_at_ms = queued_at_ms, cancel_reason = 'user'`)
	if cancel, err := run.Renew(t.Context(), w.runtime, work.Lease, time.Hour); !cancel || err != nil {
		t.Errorf("Renew() with a cancellation = %t, %v, want true", cancel, err)
	}
	if err := run.Finish(t.Context(), w.runtime, work.Lease, run.Outcome{Status: run.Cancelled}); err != nil {
		t.Fatal(err)
	}
	after := w.everything(id)
	if _, err := run.Renew(t.Context(), w.runtime, work.Lease, time.Hour); !errors.Is(err, run.ErrLost) || w.everything(id) != after {
		t.Errorf("Renew() after the end = %v, want ErrLost and nothing changed", err)
	}
}

func TestWithoutTheLeaseNothingChanges(t *testing.T) {
	w := newWorld(t)
	first, second := w.admit(2*time.Minute), w.admit(time.Minute)
	mine, other := w.dispatch(), w.dispatch()
	forged := map[string]run.Lease{
		"a token nobody has":         {RunID: first, AttemptID: mine.AttemptID, Token: uuid.New(), Worker: "worker-1"},
		"no token":                   {RunID: first, AttemptID: mine.AttemptID, Worker: "worker-1"},
		"another Attempt's token":    {RunID: first, AttemptID: mine.AttemptID, Token: other.Token, Worker: "worker-1"},
		"an Attempt that is not":     {RunID: first, AttemptID: uuid.New(), Token: mine.Token, Worker: "worker-1"},
		"the token of the other one": {RunID: second, AttemptID: other.AttemptID, Token: mine.Token, Worker: "worker-1"},
	}
	calls := map[string]func(run.Lease) error{
		"Start":  func(l run.Lease) error { return run.Start(t.Context(), w.runtime, l, time.Minute) },
		"Finish": func(l run.Lease) error { return run.Finish(t.Context(), w.runtime, l, run.Outcome{Status: run.Failed}) },
		"Renew":  func(l run.Lease) error { _, err := run.Renew(t.Context(), w.runtime, l, time.Hour); return err },
	}
	before := w.everything(first) + w.everything(second)
	for what, lease := range forged {
		for name, call := range calls {
			if err := call(lease); !errors.Is(err, run.ErrLost) {
				t.Errorf("%s(%s) = %v, want ErrLost", name, what, err)
			}
		}
	}
	if diff := cmp.Diff(before, w.everything(first)+w.everything(second)); diff != "" {
		t.Errorf("Runs (-before +after)\n%s", diff)
	}
}

// Every pair of statuses, every move: what both tables allow happens, and nothing else. Triggers are off, so it is the
// statement that refuses.
func TestMovesAreTheTables(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	work := w.dispatch()
	w.start(work)
	targets := []run.Status{run.Running, run.Succeeded, run.Failed, run.Cancelled, run.TimedOut}
	for _, r := range run.RunStatuses() {
		for _, a := range attemptStatuses {
			for _, to := range targets {
				allowed := slices.Contains(run.RunMoves[r], to) && slices.Contains(run.AttemptMoves[a], to)
				w.tryMove(id, work, r, a, to, allowed)
			}
		}
	}
}

func (w *world) tryMove(id uuid.UUID, work run.Work, r, a, to run.Status, allowed bool) {
	w.t.Helper()
	tx := w.begin(w.super, pgx.ReadCommitted)
	defer tx.Rollback(w.t.Context())
	_, err := tx.Exec(w.t.Context(), `SET LOCAL session_replication_role = replica`)
	if err == nil {
		_, err = tx.Exec(w.t.Context(), `UPDATE runs SET status = $2, finished_at_ms = CASE WHEN $3 THEN started_at_ms END WHERE id = $1`, id, r, r.Terminal())
	}
	if err == nil {
		_, err = tx.Exec(w.t.Context(), `UPDATE run_attempts SET status = $2, finished_at_ms = CASE WHEN $3 THEN started_at_ms END WHERE run_id = $1`,
			id, a, len(run.AttemptMoves[a]) == 0)
	}
	if err != nil {
		w.t.Fatalf("Run %s, Attempt %s: %v", r, a, err)
	}
	before := pgtest.Value[string](w.t, tx, everythingSQL, id)
	if to == run.Running {
		err = run.Start(w.t.Context(), tx, work.Lease, time.Minute)
	} else {
		err = run.Finish(w.t.Context(), tx, work.Lease, run.Outcome{Status: to})
	}
	switch {
	case allowed && err != nil:
		w.t.Errorf("Run %s, Attempt %s to %s = %v, want it to be allowed", r, a, to, err)
	case !allowed && !errors.Is(err, run.ErrLost):
		w.t.Errorf("Run %s, Attempt %s to %s = %v, want ErrLost", r, a, to, err)
	case !allowed && pgtest.Value[string](w.t, tx, everythingSQL, id) != before:
		w.t.Errorf("Run %s, Attempt %s to %s was refused and changed something", r, a, to)
	}
}

func TestFinishEndsARun(t *testing.T) {
	w := newWorld(t)
	id := w.admit(time.Minute)
	work := w.dispatch()
	before := w.everything(id)
	for _, s := range append(slices.DeleteFunc(append(run.RunStatuses(), attemptStatuses...), run.Status.Terminal), "", "gone") {
		if err := run.Finish(t.Context(), w.runtime, work.Lease, run.Outcome{Status: s}); err == nil {
			t.Errorf("Finish(%q) = nil, want it refused: it is no end", s)
		}
	}
	if diff := cmp.Diff(before, w.everything(id)); diff != "" {
		t.Errorf("Run (-before +after)\n%s", diff)
	}
}

// A writer that waited for the row goes by what it then finds.
func TestFinishBehindAnotherWriter(t *testing.T) {
	tests := []struct {
		name  string
		first func(w *world, tx pgx.Tx, work run.Work) error
		want  error
	}{
		{"a request to cancel numbers its Event first", func(w *world, tx pgx.Tx, work run.Work) error {
			_, err := tx.Exec(w.t.Context(), `WITH r AS (
				UPDATE runs SET cancel_requested_at_ms = queued_at_ms, cancel_reason = 'user', version = version + 1, event_sequence = event_sequence + 1 WHERE id = $1 RETURNING *)
				INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, created_at_ms)
				SELECT gen_random_uuid(), id, event_sequence, 'run.cancel_requested', 'user', 'u', cancel_requested_at_ms FROM r`, work.RunID)
			return err
		}, nil},
		{"the same lease has ended it", func(w *world, tx pgx.Tx, work run.Work) error {
			return run.Finish(w.t.Context(), tx, work.Lease, run.Outcome{Status: run.Succeeded})
		}, run.ErrLost},
		{"the lease was taken away", func(w *world, tx pgx.Tx, work run.Work) error {
			_, err := tx.Exec(w.t.Context(), `UPDATE run_attempts SET lease_token = gen_random_uuid() WHERE id = $1`, work.AttemptID)
			return err
		}, run.ErrLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.admit(time.Minute)
			work := w.dispatch()
			w.start(work)
			tx := w.begin(w.super, pgx.ReadCommitted)
			if err := tt.first(w, tx, work); err != nil {
				t.Fatal(err)
			}
			finished := make(chan error, 1)
			go func() {
				finished <- run.Finish(t.Context(), w.runtime, work.Lease, run.Outcome{Status: run.Failed, Code: "exit_code"})
			}()
			w.waiting(1)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-finished; !errors.Is(err, tt.want) {
				t.Errorf("Finish() = %v, want %v", err, tt.want)
			}
			w.wantNumbered(id)
			if wrong := value[bool](w, `SELECT (status = 'failed') <> $2 FROM runs WHERE id = $1`, id, tt.want == nil); wrong {
				t.Errorf("Finish() = %v, but the Run is %s", tt.want, w.everything(id))
			}
		})
	}
}

func TestErrorsSayWhatWasDone(t *testing.T) {
	w := newWorld(t)
	w.runtime.Close()
	l := run.Lease{RunID: uuid.MustParse("0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e")}
	calls := map[string]func(context.Context) error{
		"run.Dispatch(worker-1): ": func(ctx context.Context) error {
			_, err := run.Dispatch(ctx, w.runtime, "worker-1", time.Minute)
			return err
		},
		"run.Renew(0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e): ": func(ctx context.Context) error {
			_, err := run.Renew(ctx, w.runtime, l, time.Minute)
			return err
		},
		"run.Start(0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e): ": func(ctx context.Context) error {
			return run.Start(ctx, w.runtime, l, time.Minute)
		},
		"run.Finish(0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e, failed): ": func(ctx context.Context) error {
			return run.Finish(ctx, w.runtime, l, run.Outcome{Status: run.Failed})
		},
	}
	for want, call := range calls {
		if err := call(t.Context()); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("error %v, want it to begin with %q", err, want)
		}
	}
}
