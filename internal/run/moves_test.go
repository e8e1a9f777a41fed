package run_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/run"
)

var attemptStatuses = []run.Status{run.Claimed, run.Starting, run.Running, run.Succeeded, run.Failed, run.Cancelled, run.TimedOut, run.Lost}

func TestRunMovesEndWhereTerminalSays(t *testing.T) {
	for _, s := range run.RunStatuses() {
		if (len(run.RunMoves[s]) == 0) != s.Terminal() {
			t.Errorf("%s leads to %v, Terminal() = %t", s, run.RunMoves[s], s.Terminal())
		}
	}
	checkMoves(t, "RunMoves", run.RunMoves, run.Created, run.RunStatuses())
}

func TestAttemptMovesEndWhereTerminalSaysAndInLost(t *testing.T) {
	for _, s := range attemptStatuses {
		if (len(run.AttemptMoves[s]) == 0) != (s.Terminal() || s == run.Lost) {
			t.Errorf("%s leads to %v, Terminal() = %t", s, run.AttemptMoves[s], s.Terminal())
		}
	}
	checkMoves(t, "AttemptMoves", run.AttemptMoves, run.Claimed, attemptStatuses)
}

// checkMoves wants every status, and no other, to be reached from the first one.
func checkMoves(t *testing.T, name string, moves map[run.Status][]run.Status, first run.Status, all []run.Status) {
	t.Helper()
	reached := map[run.Status]bool{}
	for todo := []run.Status{first}; len(todo) > 0; todo = todo[1:] {
		if !reached[todo[0]] {
			reached[todo[0]] = true
			todo = append(todo, moves[todo[0]]...)
		}
	}
	want := map[run.Status]bool{}
	for _, s := range all {
		want[s] = true
	}
	if diff := cmp.Diff(want, reached); diff != "" {
		t.Errorf("%s reaches (-want +got)\n%s", name, diff)
	}
	for s := range moves {
		if !want[s] {
			t.Errorf("%s leads from %s, which is no status", name, s)
		}
	}
}

// The database knows the same statuses, and ends them where the code does.
func TestStatusesAreTheDatabases(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, definition string
		want             []run.Status
	}{
		{"of a Run", `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'run_status_known'`, run.RunStatuses()},
		{"of an Attempt", `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'attempt_status_known'`, attemptStatuses},
		{"terminal of a Run", `SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'terminal' AND tgrelid = 'runs'::regclass`,
			slices.DeleteFunc(run.RunStatuses(), func(s run.Status) bool { return !s.Terminal() })},
		{"terminal of an Attempt", `SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'terminal' AND tgrelid = 'run_attempts'::regclass`,
			slices.DeleteFunc(slices.Clone(attemptStatuses), func(s run.Status) bool { return len(run.AttemptMoves[s]) > 0 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := value[[]run.Status](w, `SELECT array_agg(m[1] ORDER BY m[1]) FROM (`+tt.definition+`) d (text), regexp_matches(text, '''([a-z_]+)''', 'g') m`)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("statuses (-code +database)\n%s", diff)
			}
		})
	}
}

func TestNewIDSortsByItsClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-2).Draw(t, "ms")
		a, b := run.NewID(ms), run.NewID(ms+1)
		got := int64(binary.BigEndian.Uint64(append([]byte{0, 0}, a[:6]...)))
		if a.Version() != 7 || a.Variant() != uuid.RFC4122 || got != ms {
			t.Errorf("NewID(%d) = %s: version %d, variant %s, time %d", ms, a, a.Version(), a.Variant(), got)
		}
		if a.String() >= b.String() {
			t.Errorf("NewID(%d) = %s, not before NewID(%d) = %s", ms, a, ms+1, b)
		}
	})
	if a, b := run.NewID(1), run.NewID(1); a == b {
		t.Errorf("NewID(1) = %s twice", a)
	}
}

func TestOccurrenceKey(t *testing.T) {
	o := run.Occurrence{TriggerID: "nightly", TriggerRevision: 3, TriggerDigest: "d", ScheduledForMS: 1764439082000}
	if got, want := o.Key(), "ql3:cron:v1:nightly:3:1764439082000"; got != want {
		t.Errorf("Key(%+v) = %q, want %q", o, got, want)
	}
}
