package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/migrations"
)

func TestPauseUntil(t *testing.T) {
	ms := func(v int64) *int64 { return &v }
	tests := []struct {
		name   string
		pulse  pulse
		missed int
		want   time.Duration
	}{
		{"nothing to wait for", pulse{NowMS: 1000}, 0, time.Second},
		{"the next cursor", pulse{NowMS: 1000, NextMS: ms(1250)}, 0, 250 * time.Millisecond},
		{"no longer than the cadence", pulse{NowMS: 1000, NextMS: ms(9000)}, 0, time.Second},
		{"due since the cycle ended", pulse{NowMS: 1000, NextMS: ms(999)}, 0, time.Millisecond},
		{"never set", pulse{NowMS: 1000, NextMS: ms(-1)}, 0, time.Millisecond},
		{"due and out of reach four times", pulse{NowMS: 1000, NextMS: ms(999)}, 4, 16 * time.Millisecond},
		{"due and out of reach for long", pulse{NowMS: 1000, NextMS: ms(999)}, 1000, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := pauseUntil(tt.pulse, time.Second, tt.missed); got != tt.want {
				t.Errorf("pauseUntil = %v, want %v", got, tt.want)
			}
		})
	}
}

// Idle cycles before an occurrence must not make the replica sleep through it: the lateness of an occurrence after a
// long idle spell is that of the first one.
func TestLoopWakesForTheNextCursorAfterIdleCycles(t *testing.T) {
	w := newWorld(t, "one")
	s := w.replica("a", func(c *Settings) { c.Cadence = MaxCadence })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	for range 20 { // what an idle replica does once a cadence
		if _, err := s.Cycle(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.due("one", -700*time.Millisecond)
	go func() { done <- s.Run(ctx) }()
	for w.written().Runs == 0 {
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	if late := value[int64](w, `SELECT created_at_ms - scheduled_for_ms FROM runs`); late >= MaxCadence.Milliseconds()/2 {
		t.Errorf("the Run came %d ms late: the replica slept for its cadence of %v", late, MaxCadence)
	}
}

// A notification wakes a sleeping replica; Wake before anybody sleeps is not lost.
func TestWakeEndsTheSleep(t *testing.T) {
	w := newWorld(t, "one")
	s := w.replica("a", func(c *Settings) { c.Cadence = MaxCadence })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for value[int](w, `SELECT count(*) FROM replicas`) == 0 { // it has found nothing and goes to sleep
	}
	w.due("one", 0)
	s.Wake()
	for w.written().Runs == 0 {
	}
	cancel()
	<-done
	if late := value[int64](w, `SELECT created_at_ms - scheduled_for_ms FROM runs`); late >= MaxCadence.Milliseconds()/2 {
		t.Errorf("the Run came %d ms late: Wake did not end the sleep", late)
	}
}

// A migration that raises the floor above a replica that runs ends its admission: the heartbeat notices.
func TestARaisedFloorIsNoticedByTheHeartbeat(t *testing.T) {
	w := newWorld(t, "one")
	s := w.replica("a", nil)
	var told error
	s.Lost = func(err error) { told = err }
	if _, err := s.rest(t.Context()); err != nil || told != nil {
		t.Fatalf("rest on its own schema = %v, and told %v, want neither", err, told)
	}
	if got := value[int64](w, `SELECT schema_version FROM replicas WHERE id = 'a'`); got != migrations.Latest() {
		t.Errorf("the replica says that it was built for schema %d, want %d", got, migrations.Latest())
	}
	w.exec(`INSERT INTO schema_floors VALUES ($1, $1)`, migrations.Latest()+1)
	if _, err := s.rest(t.Context()); err == nil || told == nil || !strings.Contains(told.Error(), "run a newer console") {
		t.Errorf("rest below the floor = %v, and told %v, want both to say so", err, told)
	}
}

// What a migration has taken away sends a replica back to its gates, which say what is wrong.
func TestAMissingColumnIsTold(t *testing.T) {
	w := newWorld(t, "one")
	s := w.replica("a", nil)
	var told error
	s.Lost = func(err error) { told = err }
	w.exec(`ALTER TABLE replicas RENAME clock_skew_ms TO skew_ms`)
	if _, err := s.rest(t.Context()); err == nil || told == nil {
		t.Errorf("rest = %v, and told %v, want both to name the column", err, told)
	}
}

// Stopping finishes the cycle in flight, and gives up on one that does not end.
func TestRunDrains(t *testing.T) {
	t.Run("waits for the commit in hand", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		open := holdRunInsertion(w)
		s := w.replica("a", nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		w.waiting()
		cancel()
		open()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if n := w.written().Runs; n != 1 {
			t.Errorf("%d Runs after the drain, want 1", n)
		}
	})
	t.Run("but not for ever", func(t *testing.T) {
		w := newWorld(t, "one")
		w.due("one", time.Second)
		open := holdRunInsertion(w)
		defer open()
		s := w.replica("a", func(c *Settings) { c.Drain = 50 * time.Millisecond })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		w.waiting()
		cancel()
		if err := <-done; err == nil {
			t.Error("Run = nil, want an error that says the cycle did not end")
		}
	})
}
