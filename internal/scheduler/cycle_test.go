package scheduler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg"
)

func TestNextSize(t *testing.T) {
	tests := []struct {
		name            string
		size            int
		full, disturbed bool
		want            int
	}{
		{"nothing more is due", batchLimit, false, false, firstBatch},
		{"a backlog", firstBatch, true, false, 2 * firstBatch},
		{"a backlog, at the limit", batchLimit, true, false, batchLimit},
		{"others are in the way", batchLimit, true, true, batchLimit / 2},
		{"others are in the way of the last", batchLimit, false, true, batchLimit / 2},
		{"others are in the way of a small one", firstBatch, true, true, firstBatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := nextSize(tt.size, tt.full, tt.disturbed); got != tt.want {
				t.Errorf("nextSize(%d, %t, %t) = %d, want %d", tt.size, tt.full, tt.disturbed, got, tt.want)
			}
		})
	}
}

// While a commit waits another batch is worked on, and no more than that. A replica that is stopped then claims no
// further, and admits both.
func TestCycleWorksOnTwoBatches(t *testing.T) {
	const schedules = 200
	w := newWorld(t, backlogIDs(schedules)...)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
	open := holdRunInsertion(w)
	ctx, stop := context.WithCancel(t.Context())
	s := w.replica("a", nil)
	type result struct {
		claims int
		err    error
	}
	done := make(chan result, 1)
	go func() {
		claims, err := s.Cycle(ctx)
		done <- result{claims, err}
	}()
	w.waiting()
	const held = `SELECT count(*) FROM trigger_schedules WHERE claim_token IS NOT NULL`
	for value[int](w, held) < 2*firstBatch {
	}
	stop()
	open()
	if r := <-done; r.err != nil || r.claims != 2*firstBatch {
		t.Errorf("Cycle, stopped during its first commit = %d, %v, want %d claims", r.claims, r.err, 2*firstBatch)
	}
	if diff := cmp.Diff(written{2 * firstBatch, 2 * firstBatch, 4 * firstBatch}, w.written()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if n := value[int](w, held); n != 0 {
		t.Errorf("%d claims left, want none", n)
	}
	if claims, err := s.Cycle(t.Context()); err != nil || claims != schedules-2*firstBatch {
		t.Errorf("the next Cycle = %d, %v, want the other %d", claims, err, schedules-2*firstBatch)
	}
	if s.size != firstBatch {
		t.Errorf("after the backlog the next batch is of %d, want %d", s.size, firstBatch)
	}
}

// A cycle takes no more than its budget, whatever the size of its batches.
func TestCycleKeepsToItsBudget(t *testing.T) {
	w := newWorld(t, backlogIDs(60)...)
	w.exec(`UPDATE trigger_schedules SET next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
	s := w.replica("a", func(c *Settings) { c.Budget = 21 })
	for _, want := range []int{21, 21, 18, 0} {
		if claims, err := s.Cycle(t.Context()); err != nil || claims != want {
			t.Errorf("Cycle = %d, %v, want %d claims", claims, err, want)
		}
	}
}
