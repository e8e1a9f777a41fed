package web

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/scheduler"
)

// at is an instant of minute n.
func at(n int64, v scheduler.Verdict, change ...func(*scheduler.Instant)) scheduler.Instant {
	i := scheduler.Instant{AtMS: n * 60_000, Revision: 1, Verdict: v}
	for _, f := range change {
		f(&i)
	}
	return i
}

func TestFold(t *testing.T) {
	because := func(s string) func(*scheduler.Instant) { return func(i *scheduler.Instant) { i.Reason = s } }
	repeated := func(i *scheduler.Instant) { i.Mark = "repeated" }
	tests := []struct {
		name      string
		instants  []scheduler.Instant
		spells    []scheduler.Spell
		truncated bool
		want      []string
	}{
		{name: "nothing expected"},
		{name: "neighbours of one end are one row", instants: []scheduler.Instant{at(5, "coalesced"), at(4, "coalesced"), at(3, "skipped"), at(2, "coalesced")},
			want: []string{"coalesced 4-5", "skipped 3", "coalesced 2"}},
		{name: "admitted ones keep a row each", instants: []scheduler.Instant{at(3, "admitted"), at(2, "admitted"), at(1, "disabled")},
			want: []string{"admitted 3", "admitted 2", "disabled 1"}},
		{name: "another reason is another row", instants: []scheduler.Instant{at(3, "superseded", because("a")), at(2, "superseded", because("b")), at(1, "superseded", because("b"))},
			want: []string{"superseded 3", "superseded 1-2"}},
		{name: "what the clock does to an instant is not hidden", instants: []scheduler.Instant{at(3, "coalesced"), at(2, "coalesced", repeated), at(1, "coalesced")},
			want: []string{"coalesced 3", "coalesced 2", "coalesced 1"}},
		{name: "a spell stands between what was after and what was in it", instants: []scheduler.Instant{at(4, "admitted"), at(3, "coalesced"), at(2, "coalesced"), at(1, "admitted")},
			spells: []scheduler.Spell{{FromMS: 90_000, ToMS: 200_000}}, want: []string{"admitted 4", "spell", "coalesced 2-3", "admitted 1"}},
		{name: "a spell parts a row, even without an instant in it", instants: []scheduler.Instant{at(2, "disabled"), at(1, "disabled")},
			spells: []scheduler.Spell{{FromMS: 70_000, ToMS: 100_000}}, want: []string{"disabled 2", "spell", "disabled 1"}},
		{name: "spells before and after all", instants: []scheduler.Instant{at(2, "admitted")}, spells: []scheduler.Spell{{FromMS: 1, ToMS: 2}, {FromMS: 3, ToMS: 4}, {FromMS: 150_000, ToMS: 160_000}},
			want: []string{"spell", "admitted 2", "spell", "spell"}},
		{name: "spells before the oldest shown belong to the next page", instants: []scheduler.Instant{at(2, "admitted")}, spells: []scheduler.Spell{{FromMS: 1, ToMS: 2}}, truncated: true,
			want: []string{"admitted 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows := fold(scheduler.Account{Instants: tt.instants, Spells: tt.spells, Truncated: tt.truncated}, false)
			var got []string
			for _, r := range rows {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fold() (-want +got):\n%s", diff)
			}
		})
	}
}

// String is the verdict and the minutes of a row.
func (s stretch) String() string {
	if s.spell != nil {
		return "spell"
	}
	newest, oldest := s.instants[0], s.instants[len(s.instants)-1]
	if len(s.instants) == 1 {
		return fmt.Sprintf("%s %d", newest.Verdict, newest.AtMS/60_000)
	}
	return fmt.Sprintf("%s %d-%d", newest.Verdict, oldest.AtMS/60_000, newest.AtMS/60_000)
}

func TestFoldLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		a := scheduler.Account{Instants: []scheduler.Instant{}}
		for i := range n {
			a.Instants = append(a.Instants, at(int64(n-i), rapid.SampledFrom(verdicts).Draw(t, "verdict"), func(i *scheduler.Instant) { i.Unattended = rapid.Bool().Draw(t, "unattended") }))
		}
		for ms := int64(0); ms < int64(n)*60_000; ms += 90_000 {
			if rapid.Bool().Draw(t, "spell") {
				a.Spells = append(a.Spells, scheduler.Spell{FromMS: ms, ToMS: ms + 60_000})
			}
		}
		var spells int
		got := []scheduler.Instant{}
		for _, r := range fold(a, rapid.Bool().Draw(t, "admitted")) {
			got = append(got, r.instants...)
			if r.spell != nil {
				spells++
			}
		}
		if diff := cmp.Diff(a.Instants, got); diff != "" || spells != len(a.Spells) {
			t.Errorf("fold() shows %d of %d spells, and of the instants (-want +got):\n%s", spells, len(a.Spells), diff)
		}
	})
}

func TestFoldAccountIsBounded(t *testing.T) {
	var uneventful, worst []scheduler.Instant
	for n := int64(scheduler.MaxInstants); n > 0; n-- {
		uneventful = append(uneventful, at(n, "admitted"))
		worst = append(worst, at(n, []scheduler.Verdict{"admitted", "skipped"}[n%2]))
	}
	uneventful[700].Verdict = "coalesced"
	tests := []struct {
		name string
		a    scheduler.Account
		rows int
		more bool
	}{
		{"an exception is found among what was admitted", scheduler.Account{Instants: uneventful}, 3, false},
		{"older instants are left out of the range", scheduler.Account{Instants: uneventful, Truncated: true}, 3, true},
		{"few admitted ones keep their rows", scheduler.Account{Instants: uneventful[:roomy]}, roomy, false},
		{"one more and they are folded", scheduler.Account{Instants: uneventful[:roomy+1]}, 1, false},
		{"nothing to fold", scheduler.Account{Instants: worst}, maxRows, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if rows, more := foldAccount(tt.a); len(rows) != tt.rows || more != tt.more {
				t.Errorf("foldAccount() = %d rows, %t, want %d, %t", len(rows), more, tt.rows, tt.more)
			}
		})
	}
}

func TestWhy(t *testing.T) {
	late := func(ms int64) func(*scheduler.Instant) { return func(i *scheduler.Instant) { i.LatenessMS = &ms } }
	ended := func(s string) func(*scheduler.Instant) { return func(i *scheduler.Instant) { i.RunStatus = s } }
	because := func(s string) func(*scheduler.Instant) { return func(i *scheduler.Instant) { i.Reason = s } }
	alone := func(i *scheduler.Instant) { i.Unattended = true }
	tests := []struct {
		name     string
		instants []scheduler.Instant
		want     string
	}{
		{"admitted", []scheduler.Instant{at(1, "admitted", late(23), ended("failed"))}, "Became a Run, 23 ms late."},
		{"several admitted", []scheduler.Instant{at(3, "admitted", late(23), ended("failed")), at(2, "admitted", late(4), ended("succeeded")), at(1, "admitted", late(31_000), ended("succeeded"))},
			"Became a Run, 4 ms to 31 s late: 2 succeeded, 1 failed."},
		{"skipped", []scheduler.Instant{at(1, "skipped", late(390_000), because("misfire policy skip"))}, "It was 6 min 30 s late when a replica looked, and too late to run: misfire policy skip."},
		{"coalesced, its lateness unknown", []scheduler.Instant{at(1, "coalesced")}, "Passed over: when a replica looked, the oldest of this backlog was some time late. A backlog is not replayed."},
		{"superseded without a reason", []scheduler.Instant{at(1, "superseded")}, "Due, but not yet admitted."},
		{"disabled", []scheduler.Instant{at(1, "disabled")}, "Revision 1 of the Trigger was in force, and it or its Task was disabled."},
		{"archived", []scheduler.Instant{at(1, "archived")}, "Nothing is admitted in an archived Project."},
		{"pending", []scheduler.Instant{at(1, "pending", because("claimed by a\u202eb"))}, "Not decided yet: claimed by a\ufffdb."},
		{"blocked", []scheduler.Instant{at(1, "blocked", because("no such zone"))}, "Cannot be decided: no such zone. It stays due until the cause is removed."},
		{"unaccounted", []scheduler.Instant{at(1, "unaccounted", because("nothing is recorded"))}, "It should have been decided, but nothing is recorded."},
		{"superseded without replica", []scheduler.Instant{at(1, "superseded", alone)}, "Due, but not yet admitted. No replica was running then."},
		{"pending without replica", []scheduler.Instant{at(1, "pending", alone, because("no replica was running then"))}, "Not decided yet: no replica was running then."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := why(tt.instants).String(); got != tt.want {
				t.Errorf("why(%s) = %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// Every verdict has its word, shape and colour, and its place in the summary.
func TestVerdictsAreWorded(t *testing.T) {
	shapes := map[string]scheduler.Verdict{}
	for _, v := range verdicts {
		s := verdictStatuses[v]
		if other, ok := shapes[s.Shape+s.Tone]; s.Word.Empty() || s.Shape == "" || s.Tone == "" || ok && v != scheduler.IsBlocked && v != scheduler.WasUnaccounted {
			t.Errorf("verdict %q is shown as %+v, as is %q", v, s, other)
		}
		shapes[s.Shape+s.Tone] = v
	}
	if len(verdicts) != len(verdictStatuses) {
		t.Errorf("%d verdicts are counted, %d have words", len(verdicts), len(verdictStatuses))
	}
}
