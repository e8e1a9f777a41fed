package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/migrations"
)

// Whoever listens hears of a claim, also of one that its replica does not live to commit, and of what was committed.
func TestClaimsAndCommitsAreHintedAt(t *testing.T) {
	w := newWorld(t, "a")
	s := w.replica("one", nil)
	s.Hints = pg.NewHints(w.runtime, pg.ChangesChannel)
	heard := make(chan struct{}, 100)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	report := func(err error) { t.Errorf("report(%v)", err) }
	go s.Hints.Run(ctx, report)
	go pg.Listen(ctx, w.URL(migrations.RoleRuntime), pg.ChangesChannel, func() { heard <- struct{}{} }, report)
	wait := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(30 * time.Second):
			t.Fatalf("nothing was heard of %s", what)
		}
	}
	wait("the beginning")
	w.due("a", time.Second)
	batch, err := s.claimBatch(ctx, 16)
	if err != nil || len(batch) != 1 {
		t.Fatalf("claimBatch() = %d claims, %v, want one", len(batch), err)
	}
	wait("the claim")
	if _, err := s.commitBatch(ctx, s.decideBatch(ctx, batch)); err != nil {
		t.Fatal(err)
	}
	wait("the commit")
}
