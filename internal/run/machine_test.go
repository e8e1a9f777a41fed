package run_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run"
)

// modelRun is what must be known of a Run.
type modelRun struct {
	id       uuid.UUID
	priority int
	queuedMS int64
	status   run.Status
	work     run.Work // once it is dispatched
	moves    int
}

// machine runs against the database, in one transaction, what a worker may do, and a model of three facts a Run.
type machine struct {
	tx   pgx.Tx
	runs []*modelRun
}

func TestWorkersAgainstAModel(t *testing.T) {
	w := newWorld(t)
	a := w.admission(0)
	rapid.Check(t, func(rt *rapid.T) {
		tx, err := w.runtime.Begin(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		m := &machine{tx: tx}
		for i := range int64(rapid.IntRange(1, 4).Draw(rt, "runs")) {
			a.Occurrence.ScheduledForMS, a.AtMS = i, w.nowMS-rapid.Int64Range(0, 2).Draw(rt, "ago")
			m.admit(rt, a, rapid.IntRange(0, 1).Draw(rt, "priority"))
		}
		rt.Repeat(map[string]func(*rapid.T){"": m.check, "dispatch": m.dispatch, "start": m.start, "renew": m.renew, "finish": m.finish})
	})
}

func (m *machine) admit(t *rapid.T, a run.Admission, priority int) {
	ids, err := run.Admit(context.Background(), m.tx, []run.Admission{a})
	if err == nil {
		_, err = m.tx.Exec(context.Background(), `UPDATE runs SET priority = $2 WHERE id = $1`, ids[0], priority)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.runs = append(m.runs, &modelRun{id: ids[0], priority: priority, queuedMS: a.AtMS, status: run.Queued})
}

func (m *machine) dispatch(t *rapid.T) {
	var queued []*modelRun
	for _, r := range m.runs {
		if r.status == run.Queued {
			queued = append(queued, r)
		}
	}
	work, err := run.Dispatch(context.Background(), m.tx, "worker-1", time.Minute)
	if len(queued) == 0 {
		if !errors.Is(err, run.ErrNoWork) {
			t.Fatalf("Dispatch() = %s, %v, want ErrNoWork", work.RunID, err)
		}
		return
	}
	next := slices.MinFunc(queued, func(a, b *modelRun) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.queuedMS, b.queuedMS), cmp.Compare(a.id.String(), b.id.String()))
	})
	if err != nil || work.RunID != next.id {
		t.Fatalf("Dispatch() = %s, %v, want %s", work.RunID, err, next.id)
	}
	next.status, next.work = run.Dispatching, work
	next.moves++
}

// lease draws a Run and a lease to name it with: its own or, if forged, one that is not.
func (m *machine) lease(t *rapid.T) (r *modelRun, l run.Lease, held bool) {
	r = rapid.SampledFrom(m.runs).Draw(t, "run")
	l = r.work.Lease
	if rapid.IntRange(0, 3).Draw(t, "forged") == 0 {
		l.Token = uuid.New()
		return r, l, false
	}
	return r, l, r.status == run.Dispatching || r.status == run.Running
}

func (m *machine) start(t *rapid.T) {
	r, l, held := m.lease(t)
	err := run.Start(context.Background(), m.tx, l, time.Minute)
	m.moved(t, r, run.Running, err, held && r.status == run.Dispatching)
}

func (m *machine) finish(t *rapid.T) {
	r, l, held := m.lease(t)
	to := rapid.SampledFrom([]run.Status{run.Succeeded, run.Failed, run.Cancelled, run.TimedOut}).Draw(t, "status")
	err := run.Finish(context.Background(), m.tx, l, run.Outcome{Status: to})
	m.moved(t, r, to, err, held && (r.status == run.Running || to != run.Succeeded))
}

func (m *machine) moved(t *rapid.T, r *modelRun, to run.Status, err error, allowed bool) {
	if !allowed {
		if !errors.Is(err, run.ErrLost) {
			t.Fatalf("%s to %s = %v, want ErrLost", r.status, to, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s to %s = %v, want it to be allowed", r.status, to, err)
	}
	r.status = to
	r.moves++
}

func (m *machine) renew(t *rapid.T) {
	r, l, held := m.lease(t)
	_, err := run.Renew(context.Background(), m.tx, l, time.Minute)
	if held && err != nil || !held && !errors.Is(err, run.ErrLost) {
		t.Fatalf("Renew(%s Run, under its lease %t) = %v", r.status, held, err)
	}
}

// check compares the database with the model.
func (m *machine) check(t *rapid.T) {
	attempt := map[run.Status]run.Status{run.Queued: run.Claimed, run.Dispatching: run.Starting}
	for _, r := range m.runs {
		leased := r.status == run.Dispatching || r.status == run.Running
		want := fmt.Sprintf("%s %d %d %s %t", r.status, 1+r.moves, 2+r.moves, cmp.Or(attempt[r.status], r.status), leased)
		got := pgtest.Value[string](t, m.tx, `SELECT concat_ws(' ', r.status, r.version, r.event_sequence, a.status, CASE WHEN a.lease_token IS NULL THEN 'false' ELSE 'true' END)
			FROM runs r JOIN run_attempts a ON a.run_id = r.id WHERE r.id = $1`, r.id)
		if got != want {
			t.Fatalf("Run, version, events, Attempt, lease: %s, want %s", got, want)
		}
		if wrong := pgtest.Value[string](t, m.tx, numberingSQL, r.id); wrong != "" {
			t.Fatalf("%s: %s", r.id, wrong)
		}
	}
}
