package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
)

// ErrUndecidable reports that nothing right can be done with a Schedule: it is blocked, with the reason, and keeps its
// claim as its back-off.
var ErrUndecidable = errors.New("the schedule cannot be decided")

// Kind is what a decision does with the occurrence that is due.
type Kind string

// The kinds of decision.
const (
	Admit      Kind = "admit"      // the occurrence becomes a Run
	Skip       Kind = "skip"       // too late, by the misfire policy
	Initialize Kind = "initialize" // nothing is due; the cursor is set for the first time
)

// Decision is what to do with a claim. Times are milliseconds by the database clock.
type Decision struct {
	Kind        Kind
	ObservedMS  int64  // the claim's AcquiredAtMS
	DueMS       int64  // the occurrence admitted or skipped; for Initialize, 0
	NextMS      int64  // the new cursor, after ObservedMS
	Initialized bool   // the cursor was not set before
	Passed      Passed // the instants between DueMS and NextMS, which become nothing
	Misfire     string
}

// LatenessMS is how late the occurrence was seen.
func (d Decision) LatenessMS() int64 { return d.ObservedMS - d.DueMS }

// Passed is a series of instants that were passed over. The zero value is none.
type Passed struct {
	FirstMS, LastMS int64
	Count           int
	AtLeast         bool // Count is where counting stopped
}

// decide says what to do with c, late by no more than grace being on time. It is pure: the claim is all it knows.
func decide(c Claim, grace time.Duration) (Decision, error) {
	content, schedule, err := parse(c)
	if err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrUndecidable, err)
	}
	d := Decision{ObservedMS: c.AcquiredAtMS, Misfire: content.Misfire, Initialized: c.CursorMS == nil}
	due, err := dueInstant(c, schedule)
	if err != nil {
		return Decision{}, err
	}
	if due > d.ObservedMS {
		d.Kind, d.NextMS = Initialize, due
		return d, nil
	}
	d.Kind, d.DueMS = Admit, due
	if content.Misfire == catalog.MisfireSkip && !c.CatchUp && d.LatenessMS() > grace.Milliseconds() {
		d.Kind = Skip
	}
	if d.NextMS, err = nextAfter(schedule, d.ObservedMS); err != nil {
		return Decision{}, err
	}
	d.Passed = passed(schedule, d.DueMS, d.NextMS)
	return d, nil
}

// parse checks the claim's content against its digest before it believes a word of it.
func parse(c Claim) (catalog.TriggerContent, cron.Schedule, error) {
	if err := catalog.Verify(catalog.DomainTrigger, c.TriggerContent, c.TriggerDigest); err != nil {
		return catalog.TriggerContent{}, cron.Schedule{}, err
	}
	return catalog.ParseSchedule(c.TriggerContent)
}

// dueInstant is the cursor, or where it belongs if it was never set.
func dueInstant(c Claim, s cron.Schedule) (int64, error) {
	if c.CursorMS != nil {
		return *c.CursorMS, nil
	}
	return nextAfter(s, c.BaseAtMS)
}

func nextAfter(s cron.Schedule, ms int64) (int64, error) {
	next, ok := s.Next(time.UnixMilli(ms))
	if !ok {
		return 0, fmt.Errorf("%w: no occurrence in the next 41 years", ErrUndecidable)
	}
	if next.UnixMilli() <= ms {
		return 0, fmt.Errorf("%w: the next occurrence is not later than the last", ErrUndecidable)
	}
	return next.UnixMilli(), nil
}

// passed counts the instants strictly between due and next. Counting is bounded; finding the last one is, by cron.
func passed(s cron.Schedule, due, next int64) Passed {
	from, to := time.UnixMilli(due), time.UnixMilli(next)
	count, atLeast := s.Count(from, to, countLimit)
	if count == 0 {
		return Passed{}
	}
	first, _ := s.Next(from)
	last, _ := s.Last(from, to.Add(-time.Millisecond))
	return Passed{FirstMS: first.UnixMilli(), LastMS: last.UnixMilli(), Count: count, AtLeast: atLeast}
}
