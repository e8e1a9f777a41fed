package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// The COMMIT of an admission gets no answer. Whatever the server made of it, there is one Run in the end, found by
// looking after taking the row lock, and no second one is tried.
func TestLostCommitAnswerIsSettledFromFacts(t *testing.T) {
	tests := []struct {
		name    string
		loss    pgtest.Loss
		most    int
		outcome Outcome
		written written
		held    bool
	}{
		{"the server had committed", pgtest.LoseAnswer, 1, Admitted, written{1, 1, 2}, false},
		{"the server never saw it: the claim is still held and is committed once more", pgtest.LoseRequest, 1, Admitted, written{1, 1, 2}, false},
		{"nor the second: it is left to the lease", pgtest.LoseRequest, 100, Failed, written{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "one")
			w.due("one", time.Second)
			c := w.claimOne("a")
			pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRuntime), tt.loss, tt.most)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			r := commit(ctx, pool, decided(t, c))[0]
			if r.Outcome != tt.outcome || (r.Outcome == Admitted) != (r.RunID != uuid.Nil) {
				t.Errorf("commit = %+v, want %s", r, tt.outcome)
			}
			if diff := cmp.Diff(tt.written, w.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if held := value[bool](w, `SELECT claim_token IS NOT DISTINCT FROM $1 FROM trigger_schedules`, c.Token); held != tt.held {
				t.Errorf("claim held = %v, want %v: %s", held, tt.held, w.row("one"))
			}
		})
	}
}

// The COMMIT lands after the connection has broken. A plain read right away would find nothing; settling takes the
// row lock first, which waits for it.
func TestLostCommitAnswerThatLandsLater(t *testing.T) {
	w := newWorld(t, "one")
	w.due("one", time.Second)
	c := w.claimOne("a")
	pool, proxy := pgtest.LoseCommits(t, w.URL(migrations.RoleRuntime), pgtest.LateRequest, 1)
	result := make(chan Result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		result <- commit(ctx, pool, decided(t, c))[0]
	}()
	w.waiting() // settling waits for the row that the transaction without an answer still holds
	if n := w.written().Runs; n != 0 {
		t.Fatalf("%d Runs before the COMMIT landed, want 0", n)
	}
	close(proxy.Late)
	if r := <-result; r.Outcome != Admitted {
		t.Errorf("commit = %+v, want admitted", r)
	}
	if diff := cmp.Diff(written{1, 1, 2}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// What admits nothing is settled by the cursor.
func TestLostCommitAnswerOfAFirstCursor(t *testing.T) {
	w := newWorld(t, "one")
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = NULL`)
	c := w.claimOne("a")
	pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRuntime), pgtest.LoseAnswer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if r := commit(ctx, pool, decided(t, c))[0]; r.Outcome != Initialized {
		t.Errorf("commit = %+v, want initialized", r)
	}
	if n := w.events("initialized"); n != 1 {
		t.Errorf("%d initialized events, want 1", n)
	}
}

// A batch whose COMMIT got no answer is settled claim by claim.
func TestLostCommitAnswerOfABatch(t *testing.T) {
	w := newWorld(t, "one", "two", "three")
	for _, id := range []string{"one", "two", "three"} {
		w.due(id, time.Second)
	}
	claims := w.claim("a", 16)
	pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRuntime), pgtest.LoseAnswer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i, r := range commit(ctx, pool, decided(t, claims...)) {
		if r.Outcome != Admitted {
			t.Errorf("commit[%d] = %+v, want admitted", i, r)
		}
	}
	if diff := cmp.Diff(written{3, 3, 6}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}
