package checker

import (
	"maps"
	"slices"
)

// The rules about instants. Their names are what a report says, and what the tests of this package look for.
const (
	Duplicate   = "an instant has two Runs"
	Unaccounted = "an instant has neither a Run nor a reason"
	Undecided   = "an instant is not decided although its time has come"
	Both        = "an instant has a Run and a reason why not"
	TwoReasons  = "an instant has two reasons"
	Unexpected  = "a Run of an instant that was not expected"
	NoInstant   = "a reason for an instant that was not expected"
	Miscounted  = "a row of the account counts wrongly"
	Early       = "a Run before its instant"
	Replaced    = "a Run of a revision that had been replaced"
	InPause     = "a Run while somebody held the Trigger back"
	InArchive   = "a Run while the Project was archived"
	HeldBack    = "an instant of a pause has a Run that does not catch up"
	NoCatchUp   = "a Run catches up without a pause"
	TooLate     = "a Run that the policy skip forbids"
	NoSkip      = "a skip that no policy allows"
	NoPause     = "a reason that names a pause which was not there"
)

// An expectation is one instant of one revision.
type expectation struct {
	revision int64
	runs     int
	reasons  int
}

// judge accounts for every instant of t.
func (t *trigger) judge(q Question, r *Report) {
	expected := t.expected(max(q.UpToMS, t.newest()))
	for _, a := range t.runs {
		t.judgeRun(a, q, expected, r)
	}
	for _, e := range t.account {
		t.judgeEntry(e, q, expected, r)
	}
	for _, at := range slices.Sorted(maps.Keys(expected)) {
		if at <= q.UpToMS {
			t.settle(at, expected[at], r)
		}
	}
}

// newest is the last instant that anything is said of: what was decided after the moment in question is looked at too.
func (t *trigger) newest() (ms int64) {
	for _, a := range t.runs {
		ms = max(ms, a.dueMS)
	}
	for _, e := range t.account {
		ms = max(ms, e.lastMS)
	}
	return ms
}

// expected is every instant up to a moment, by the revision that was in force.
func (t *trigger) expected(upToMS int64) map[int64]*expectation {
	all := map[int64]*expectation{}
	for i, v := range t.revisions {
		until := upToMS
		if i+1 < len(t.revisions) {
			until = min(until, t.revisions[i+1].createdMS)
		}
		for at := (v.createdMS/v.periodMS + 1) * v.periodMS; v.enabled && at <= until; at += v.periodMS {
			if !t.archivedAt(at) {
				all[at] = &expectation{revision: v.number}
			}
		}
	}
	return all
}

// archivedAt: archiving and its end take effect after their own moment.
func (t *trigger) archivedAt(ms int64) (archived bool) {
	for _, n := range t.turns {
		if n.atMS < ms {
			archived = n.archived
		}
	}
	return archived
}

// settle counts what became of an instant that must be decided.
func (t *trigger) settle(at int64, x *expectation, r *Report) {
	r.Expected++
	switch {
	case x.runs > 0:
		r.Admitted++
		r.Duplicates += x.runs - 1
		if x.runs > 1 {
			r.wrong(Duplicate, "%s at %d", t, at)
		}
		if x.reasons > 0 {
			r.wrong(Both, "%s at %d", t, at)
		}
	case x.reasons > 0:
		r.Accounted++
	case t.undecided(at, x):
		r.NotYet++
		r.wrong(Undecided, "%s at %d", t, at)
	default:
		r.Unaccounted++
		r.wrong(Unaccounted, "%s at %d, of revision %d", t, at, x.revision)
	}
	if x.reasons > 1 {
		r.wrong(TwoReasons, "%s at %d", t, at)
	}
}

// undecided reports whether the instant is still at or before the cursor of the revision in force.
func (t *trigger) undecided(at int64, x *expectation) bool {
	newest := t.revisions[len(t.revisions)-1].number
	return x.revision == newest && (t.cursorMS == nil && len(t.runs)+len(t.account) == 0 || t.cursorMS != nil && at >= *t.cursorMS)
}

// judgeRun holds one Run to what was so when it was made.
func (t *trigger) judgeRun(a admitted, q Question, expected map[int64]*expectation, r *Report) {
	x := expected[a.dueMS]
	if x == nil || x.revision != a.revision {
		r.wrong(Unexpected, "%s of %s at %d, of revision %d", a.id, t, a.dueMS, a.revision)
		return
	}
	x.runs++
	v, next := t.revision(a.revision)
	late := a.seenMS - a.dueMS
	for _, is := range []struct {
		rule   string
		broken bool
	}{
		{Early, a.madeMS < a.dueMS || a.seenMS < a.dueMS},
		{Replaced, a.madeMS > next},
		{TooLate, v.misfire == "skip" && !a.catchUp && late > q.GraceMS},
		{InPause, t.heldAt(a.madeMS)},
		{InArchive, t.archivedAt(a.madeMS)},
		{HeldBack, !a.catchUp && t.heldBack(a.dueMS)},
		{NoCatchUp, a.catchUp && !t.caughtUp(a.dueMS)},
	} {
		if is.broken {
			r.wrong(is.rule, "%s of %s at %d, made at %d", a.id, t, a.dueMS, a.madeMS)
		}
	}
}

// revision is the revision of that number and when the next one replaced it.
func (t *trigger) revision(number int64) (v revision, nextMS int64) {
	for i, v := range t.revisions {
		if v.number == number && i+1 < len(t.revisions) {
			return v, t.revisions[i+1].createdMS
		}
		if v.number == number {
			return v, forever
		}
	}
	return revision{}, forever
}

// heldAt reports whether the Trigger was paused at that moment, the first and the last not counted: what is done in
// the same millisecond may have been done before.
func (t *trigger) heldAt(ms int64) bool {
	for _, p := range t.pauses {
		if p.pausedMS < ms && ms < p.resumedMS {
			return true
		}
	}
	return false
}

// heldBack reports whether the instant fell into a pause, before anybody asked for its end.
func (t *trigger) heldBack(at int64) bool {
	for _, p := range t.pauses {
		if p.pausedMS < at && at <= min(p.resumedMS, p.readMS) {
			return true
		}
	}
	return false
}

// caughtUp reports whether a pause that was to be caught up with had passed the instant over. It may have been due
// when the pause began.
func (t *trigger) caughtUp(at int64) bool {
	for _, p := range t.pauses {
		if p.caughtUp && at <= p.resumedMS {
			return true
		}
	}
	return false
}

// judgeEntry holds one row of the account to the instants that it stands for.
func (t *trigger) judgeEntry(e entry, q Question, expected map[int64]*expectation, r *Report) {
	v, _ := t.revision(e.revision)
	if v.periodMS == 0 {
		r.wrong(NoInstant, "%s: %s", t, e)
		return
	}
	stands := 0
	for at := (e.firstMS + v.periodMS - 1) / v.periodMS * v.periodMS; at <= e.lastMS; at += v.periodMS {
		stands++
		if x := expected[at]; x == nil || x.revision != e.revision {
			r.wrong(NoInstant, "%s at %d: %s", t, at, e)
		} else {
			x.reasons++
		}
	}
	if e.firstMS%v.periodMS != 0 || stands < e.instants || stands > e.instants && !e.atLeast {
		r.wrong(Miscounted, "%s: %s stands for %d, not %d", t, e, stands, e.instants)
	}
	if e.kind == "skipped" && (v.misfire != "skip" || e.latenessMS <= q.GraceMS) {
		r.wrong(NoSkip, "%s: %s, %d ms late", t, e, e.latenessMS)
	}
	if e.kind == "paused" && !t.pausedBy(e.recordedMS) {
		r.wrong(NoPause, "%s: %s", t, e)
	}
}

// pausedBy reports whether a pause lasted at that moment or ended then.
func (t *trigger) pausedBy(ms int64) bool {
	for _, p := range t.pauses {
		if p.pausedMS <= ms && ms <= p.resumedMS {
			return true
		}
	}
	return false
}
