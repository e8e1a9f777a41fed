package runmgmt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

// The same forty, submitted at once: one form in twenty tabs over two replicas, and two people with a batch of their own
// each. Forty new Runs, once.
func TestBatchContested(t *testing.T) {
	submit := func(w *world, forms ...BatchForm) (answers map[string]int) {
		w.t.Helper()
		managers := []*Manager{w.manager, w.newManager(w.Pool(w.t, migrations.RoleRunManager))}
		answers = map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for i, form := range forms {
			all.Go(func() {
				<-start
				made, err := managers[i%2].Submit(context.Background(), form)
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprintf("%s %v", reasonOf(err), made.Replayed)]++
			})
		}
		close(start)
		all.Wait()
		return answers
	}
	t.Run("one form in twenty tabs", func(t *testing.T) {
		w := newWorld(t)
		form := w.frozen(policy.RetryRun, w.outage(40)...)
		if diff := cmp.Diff(map[string]int{"made false": 1, "made true": 19}, submit(w, slices.Repeat([]BatchForm{form}, 20)...)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ledger{40, 40, 80, 40, 0, 1}, w.ledger()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
	t.Run("two people and a second batch of one of them", func(t *testing.T) {
		w := newWorld(t)
		ids := w.outage(40)
		bob, session := w.signIn("bob", policy.Operator)
		forms := []BatchForm{w.frozen(policy.RetryRun, ids...), w.frozenBy(bob, session, "bob", policy.RetryRun, ids...), w.frozen(policy.RetryRun, ids...)}
		got := submit(w, forms...)
		if got["made false"] != 1 || got["runs_refused false"] != 2 {
			t.Errorf("answers = %v, want one made and two refused", got)
		}
		if diff := cmp.Diff(ledger{40, 40, 80, 40, 80, 1}, w.ledger()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
	t.Run("a batch and single retries of its Runs", func(t *testing.T) {
		w := newWorld(t)
		ids := w.outage(5)
		form := w.frozen(policy.RetryRun, ids...)
		single := w.form(w.proof(policy.RetryRun, 0))
		var all sync.WaitGroup
		var batchErr, singleErr error
		all.Go(func() { _, batchErr = w.manager.Submit(context.Background(), form) })
		all.Go(func() {
			_, singleErr = w.newManager(w.Pool(t, migrations.RoleRunManager)).Retry(context.Background(), single)
		})
		all.Wait()
		if (batchErr == nil) == (singleErr == nil) {
			t.Errorf("batch = %v, single = %v, want one of the two made", batchErr, singleErr)
		}
		if n := value[int](w, `SELECT max(n) FROM (SELECT count(*) AS n FROM runs WHERE retry_of_run_id IS NOT NULL GROUP BY retry_of_run_id) x`); n != 1 {
			t.Errorf("a Run was retried %d times, want once", n)
		}
	})
}

// The quota is one, for batches and single retries together.
func TestBatchHoldsTheQuota(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(Quota + 1)
	if _, err := w.manager.Submit(t.Context(), w.frozen(policy.RetryRun, ids[:40]...)); err != nil {
		t.Fatal(err)
	}
	form := w.frozen(policy.RetryRun, ids[40:]...)
	p, err := w.manager.PreviewBatch(t.Context(), form.Who, form.BatchID)
	if err != nil || p.Quota != 24 || p.Limit == nil || p.Ready() {
		t.Errorf("PreviewBatch = quota %d, limit %v, ready %v, %v; want 24 left of 25", p.Quota, p.Limit, p.Ready(), err)
	}
	_, err = w.manager.Submit(t.Context(), form)
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Reason != RateLimited || r.RetryAfter <= 0 || r.RetryAfter > QuotaWindow {
		t.Fatalf("25 with 24 places left = %v, want rate_limited and when", err)
	}
	form.Runs = form.Runs[:24]
	if made, err := w.manager.Submit(t.Context(), form); err != nil || len(made.Runs) != 24 {
		t.Errorf("24 with 24 places left = %d Runs, %v", len(made.Runs), err)
	}
	w.source = ids[Quota]
	if _, err := w.manager.Retry(t.Context(), w.form(w.proof(policy.RetryRun, 0))); reasonOf(err) != string(RateLimited) {
		t.Errorf("a single retry over the quota = %v, want rate_limited", err)
	}
}

// collide submits each form by a replica of its own, none of which gets the advisory lock that saves conflicts, and holds
// all of them at the Project until everyone waits there, with a snapshot from before.
func (w *world) collide(forms ...BatchForm) (answers []string) {
	w.t.Helper()
	held, err := w.super.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer held.Release()
	for _, sql := range []string{fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, lockKey("ops")), `BEGIN`, `SELECT FROM projects FOR UPDATE`} {
		if _, err := held.Exec(w.t.Context(), sql); err != nil {
			w.t.Fatal(err)
		}
	}
	done := make(chan error, len(forms))
	for _, form := range forms {
		m := w.newManager(w.Pool(w.t, migrations.RoleRunManager))
		go func() {
			_, err := m.Submit(context.Background(), form)
			done <- err
		}()
	}
	for value[int](w, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`) < len(forms) {
	}
	if _, err := held.Exec(w.t.Context(), `ROLLBACK`); err != nil {
		w.t.Fatal(err)
	}
	for range forms {
		answers = append(answers, reasonOf(<-done))
	}
	if _, err := held.Exec(w.t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(answers)
	return answers
}

// Two batches that fit into the quota one by one but not together: exactly one is made.
func TestQuotaContestedByTwoBatches(t *testing.T) {
	w := newWorld(t)
	ids := w.outage(80)
	got := w.collide(w.frozen(policy.RetryRun, ids[:40]...), w.frozen(policy.RetryRun, ids[40:]...))
	if diff := cmp.Diff([]string{"made", string(RateLimited)}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := w.ledger().Retries; n != 40 {
		t.Errorf("%d retries, want 40", n)
	}
}

// Two people's batches of the same Runs, and one form twice, that nothing but the database keeps apart.
func TestBatchesCollide(t *testing.T) {
	t.Run("two people", func(t *testing.T) {
		w := newWorld(t)
		ids := w.outage(40)
		bob, session := w.signIn("bob", policy.Operator)
		got := w.collide(w.frozen(policy.RetryRun, ids...), w.frozenBy(bob, session, "bob", policy.RetryRun, ids...))
		if diff := cmp.Diff([]string{"made", string(RunsRefused)}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ledger{40, 40, 80, 40, 40, 1}, w.ledger()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
	t.Run("one form in two replicas", func(t *testing.T) {
		w := newWorld(t)
		form := w.frozen(policy.RetryRun, w.outage(40)...)
		if diff := cmp.Diff([]string{"made", "made"}, w.collide(form, form)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ledger{40, 40, 80, 40, 0, 1}, w.ledger()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
	t.Run("two subsets of one batch", func(t *testing.T) {
		w := newWorld(t)
		form := w.frozen(policy.RetryRun, w.outage(10)...)
		rest := form
		form.Runs, rest.Runs = form.Runs[:5], form.Runs[5:]
		if diff := cmp.Diff([]string{"made", string(MutationConflict)}, w.collide(form, rest)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if n := w.ledger().Retries; n != 5 {
			t.Errorf("%d retries, want 5", n)
		}
	})
}

// The COMMIT of a batch gets no answer. The same form, sent again, finds out.
func TestBatchWhoseCommitGetsNoAnswer(t *testing.T) {
	for name, loss := range map[string]pgtest.Loss{"committed": pgtest.LoseAnswer, "not committed": pgtest.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			form := w.frozen(policy.RetryRun, w.outage(5)...)
			pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRunManager), loss, 1)
			// Reading what was frozen is no transaction, so the COMMIT that is lost is the submission's.
			if _, err := w.newManager(pool).Submit(t.Context(), form); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("Submit = %v, want ErrOutcomeUnknown", err)
			}
			made, err := w.manager.Submit(t.Context(), form)
			if err != nil || len(made.Runs) != 5 || made.Replayed != (loss == pgtest.LoseAnswer) {
				t.Errorf("the same form again = %d Runs, replayed %v, %v", len(made.Runs), made.Replayed, err)
			}
			if diff := cmp.Diff(ledger{5, 5, 10, 5, 0, 1}, w.ledger()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}
