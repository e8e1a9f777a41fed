package checker

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A Record is what whoever asked for changes remembers of it, in the order in which it was done to one Trigger or
// Project. Every change in it was answered in the end; forms may not have been.
type Record struct {
	Revisions []Revision
	Turns     []Turn
	Pauses    []Pause
	Forms     []Form
}

// A Window is between the first question and the answer, in milliseconds of the clock that the database has too. In it,
// and only in it, both what was before and what is after are right.
type Window struct{ BeganMS, AnsweredMS int64 }

// holds allows for the millisecond that is lost to rounding.
func (w Window) holds(ms int64) bool { return w.BeganMS-1 <= ms && ms <= w.AnsweredMS+1 }

// A Revision of a Trigger was published, or came with one of its Task.
type Revision struct {
	Window
	Project, Trigger string
	PeriodMS         int64
	Misfire          string
	Enabled          bool // and its Task
}

// A Turn archived a Project, or made it active again.
type Turn struct {
	Window
	Project  string
	Archived bool
}

// A Pause held a Trigger back.
type Pause struct {
	Project, Trigger, ID string
	Held, Resumed        Window
	CatchUp              bool
}

// A Form to retry or stop a Run, and how often it was answered how.
type Form struct {
	Mutation, Action, Run string
	Made                  bool   // it was answered once that it is done
	Result                string // the Run that it made then
	Refused, Unanswered   int
	Final                 string // the refusal that no later moment takes back, if there was one
}

// The rules about what is remembered.
const (
	NotRemembered = "what is there is not what was asked for"
	OutOfWindow   = "something happened before it was asked for or after it was answered"
	NotDone       = "what was answered as done was not done"
	DoneAnyway    = "what was refused was done"
	DeniedRows    = "the refusals have not one denied row each"
)

// compare holds the history of every Trigger to the record, and tells each pause when its end was first asked for.
func (c *Record) compare(triggers []*trigger, r *Report) {
	for _, t := range triggers {
		c.compareRevisions(t, r)
		c.compareTurns(t, r)
		c.comparePauses(t, r)
	}
}

func (c *Record) compareRevisions(t *trigger, r *Report) {
	asked := of(c.Revisions, func(v Revision) bool { return v.Project == t.project && v.Trigger == t.id })
	if len(asked) != len(t.revisions) {
		r.wrong(NotRemembered, "%s has %d revisions, %d were published", t, len(t.revisions), len(asked))
		return
	}
	for i, v := range t.revisions {
		a := asked[i]
		if v.periodMS != a.PeriodMS || v.misfire != a.Misfire || v.enabled != a.Enabled {
			r.wrong(NotRemembered, "revision %d of %s", v.number, t)
		}
		if !a.holds(v.createdMS) {
			r.wrong(OutOfWindow, "revision %d of %s at %d, not from %d to %d", v.number, t, v.createdMS, a.BeganMS, a.AnsweredMS)
		}
	}
}

func (c *Record) compareTurns(t *trigger, r *Report) {
	asked := of(c.Turns, func(n Turn) bool { return n.Project == t.project })
	if len(asked) != len(t.turns) {
		r.wrong(NotRemembered, "%s was archived or not %d times, %d were asked for", t, len(t.turns), len(asked))
		return
	}
	for i, n := range t.turns {
		if n.archived != asked[i].Archived {
			r.wrong(NotRemembered, "turn %d of %s", i, t)
		}
		if !asked[i].holds(n.atMS) {
			r.wrong(OutOfWindow, "%s turned at %d, not from %d to %d", t, n.atMS, asked[i].BeganMS, asked[i].AnsweredMS)
		}
	}
}

func (c *Record) comparePauses(t *trigger, r *Report) {
	asked := of(c.Pauses, func(p Pause) bool { return p.Project == t.project && p.Trigger == t.id })
	if len(asked) != len(t.pauses) {
		r.wrong(NotRemembered, "%s was paused %d times, %d were asked for", t, len(t.pauses), len(asked))
		return
	}
	for i := range t.pauses {
		p, a := &t.pauses[i], asked[i]
		p.readMS = a.Resumed.BeganMS
		if p.id != a.ID || p.caughtUp && !a.CatchUp {
			r.wrong(NotRemembered, "pause %s of %s", p.id, t)
		}
		if !a.Held.holds(p.pausedMS) || !a.Resumed.holds(p.resumedMS) {
			r.wrong(OutOfWindow, "pause %s of %s from %d to %d, not from %v to %v", p.id, t, p.pausedMS, p.resumedMS, a.Held, a.Resumed)
		}
	}
}

// of are the elements that belong, by when they were asked for.
func of[T any](all []T, belongs func(T) bool) (list []T) {
	for _, v := range all {
		if belongs(v) {
			list = append(list, v)
		}
	}
	return list
}

// became is what the rows say of one mutation.
type became struct {
	Result string
	Count  int
}

// compareForms holds what was answered to what was done.
func (c *Record) compareForms(ctx context.Context, tx pgx.Tx, r *Report) error {
	done, err := readPairs(ctx, tx, `WITH `+deeds+` SELECT mutation::text, max(run_id::text), count(*) FROM deeds WHERE mutation IS NOT NULL GROUP BY mutation`)
	if err != nil {
		return err
	}
	for _, f := range c.Forms {
		d := done[f.Mutation]
		if f.Made && (d.Count != 1 || f.Action == "run.retry" && d.Result != f.Result) {
			r.wrong(NotDone, "%s of %s by %s led to %q, there is %+v", f.Action, f.Run, f.Mutation, f.Result, d)
		}
		if !f.Made && f.Unanswered == 0 && d.Count > 0 {
			r.wrong(DoneAnyway, "%s of %s by %s", f.Action, f.Run, f.Mutation)
		}
	}
	return c.compareRefusals(ctx, tx, r)
}

// compareRefusals counts by Run: the row of a role that is missing names no mutation.
func (c *Record) compareRefusals(ctx context.Context, tx pgx.Tx, r *Report) error {
	denied, err := readPairs(ctx, tx, `SELECT action || ' of ' || run_id, '', count(*) FROM ql3.security_audit_events
		WHERE outcome = 'denied' AND action IN ('run.retry', 'run.stop') GROUP BY 1`)
	if err != nil {
		return err
	}
	least, most := map[string]int{}, map[string]int{}
	for _, f := range c.Forms {
		least[f.Action+" of "+f.Run] += f.Refused
		most[f.Action+" of "+f.Run] += f.Refused + f.Unanswered
	}
	for what, d := range denied {
		if _, asked := most[what]; !asked {
			r.wrong(DeniedRows, "%s: %d rows, nobody asked", what, d.Count)
		}
	}
	for what := range most {
		if n := denied[what].Count; n != min(max(n, least[what]), most[what]) {
			r.wrong(DeniedRows, "%s: %d rows, want %d to %d", what, n, least[what], most[what])
		}
	}
	return nil
}

func readPairs(ctx context.Context, tx pgx.Tx, sql string) (map[string]became, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	pairs := map[string]became{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (key string, err error) {
		var b became
		err = row.Scan(&key, &b.Result, &b.Count)
		pairs[key] = b
		return key, err
	})
	return pairs, err
}

// Sort puts what several people remember into the order in which it was asked for.
func (c *Record) Sort() {
	slices.SortStableFunc(c.Revisions, func(a, b Revision) int { return cmp.Compare(a.BeganMS, b.BeganMS) })
	slices.SortStableFunc(c.Turns, func(a, b Turn) int { return cmp.Compare(a.BeganMS, b.BeganMS) })
	slices.SortStableFunc(c.Pauses, func(a, b Pause) int { return cmp.Compare(a.Held.BeganMS, b.Held.BeganMS) })
}
