package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg"
)

// Any sequence of pausing, resuming, publishing, falling due, claiming, lapsing and committing, against a model of three
// facts: whether the Trigger is paused, which claim is the one that may commit, and which are lost for ever.
func TestPausedNeverRunsInAnyOrder(t *testing.T) {
	w := newWorld(t, "one")
	o := w.operator()
	revision := 0
	rapid.Check(t, func(r *rapid.T) {
		w.exec(`UPDATE trigger_pauses SET resumed_at_ms = paused_at_ms, resumed_by = paused_by, caught_up = false WHERE resumed_at_ms IS NULL`)
		w.exec(`UPDATE trigger_schedules SET pause_id = NULL, catch_up = false, enabled = true, claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL, next_fire_at_ms = ` + pg.ClockMS + ` - 1000`)
		paused := false
		var holds *Claim // the claim that may commit
		var lost []Claim // those that must not
		lose := func() {
			if holds != nil {
				lost, holds = append(lost, *holds), nil
			}
		}
		runs := w.written().Runs
		r.Repeat(map[string]func(*rapid.T){
			"pause": func(r *rapid.T) {
				if paused {
					r.Skip()
				}
				o.pause("one")
				paused = true
				lose()
			},
			"resume": func(r *rapid.T) {
				if !paused {
					r.Skip()
				}
				o.resume("one", rapid.Bool().Draw(r, "catch up"))
				paused = false
			},
			"publish": func(r *rapid.T) {
				revision++
				w.publish(replaceOnce(manifest("one"), "/bin/true", fmt.Sprintf("/bin/%d", revision)))
				lose()
			},
			"fall due": func(*rapid.T) {
				if holds == nil {
					w.due("one", time.Second)
				}
			},
			"lapse": func(*rapid.T) {
				if holds != nil {
					w.expire("one")
					lose()
				}
			},
			"claim": func(r *rapid.T) {
				got := w.claim("a", 16)
				if len(got) > 0 && (paused || holds != nil) {
					r.Fatalf("claimed %v; paused %v, claimed before %v", triggersOf(got), paused, holds != nil)
				}
				if len(got) == 1 {
					holds = &got[0]
				}
			},
			"commit": func(r *rapid.T) {
				if holds == nil {
					r.Skip()
				}
				if res := w.commitOf(*holds)[0]; res.Outcome == Raced || res.Outcome == Failed {
					r.Fatalf("commit of the claim that is held = %+v", res)
				}
				holds = nil
				runs = w.written().Runs
			},
			"commit a lost one": func(r *rapid.T) {
				if len(lost) == 0 {
					r.Skip()
				}
				c := rapid.SampledFrom(lost).Draw(r, "which")
				c.tid = tidOf(w, "one")
				if res := w.commitOf(c)[0]; res.Outcome != Raced {
					r.Fatalf("commit of a lost claim = %+v, want raced", res)
				}
			},
			"": func(r *rapid.T) {
				if got := w.written().Runs; got != runs {
					r.Fatalf("%d Runs, want %d: only the claim that is held may make one", got, runs)
				}
			},
		})
	})
	if kinds := value[[]string](w, `SELECT array_agg(DISTINCT type) FROM schedule_events`); !slices.Contains(kinds, "raced") {
		t.Errorf("the sequences recorded %v: no claim was ever lost", kinds)
	}
}
