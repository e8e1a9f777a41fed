// Package cron says when a cron expression falls due in an IANA time zone.
//
// The set of occurrences of a Schedule depends on nothing but its expression
// and its zone: not on the host's clock, zone or zone database, and not on the
// instant from which one asks. Next, Last, Count and Occurrences are views of
// that one set, so walking it from any starting point finds the same instants.
//
// # Which instants
//
// A schedule whose hour field does not start with a star is a fixed-time
// schedule. Each local time it matches fires once: at the first instant whose
// local time it is, or, if the clock skips it, at the first instant after the
// gap. Skipped times that end up on the same instant are one occurrence.
//
// A schedule whose hour field starts with a star is an interval schedule. It
// fires at every instant whose local time matches, so twice in a repeated hour
// and never in a skipped one.
//
// If day-of-month or day-of-week starts with a star both must match, otherwise
// either may (Vixie cron's rule). A question mark is a star.
//
// # How they are found
//
// The zone is a sequence of spans of constant offset. Within a span a civil
// search jumps from one set bit to the next, so its cost does not depend on how
// rare the expression is; around a change of offset the two neighbouring spans
// say what was skipped or repeated, whatever the size of the change.
package cron

import (
	"fmt"
	"time"
)

// A Schedule is a validated expression in a zone. It is an immutable value, safe
// for concurrent use; the zero Schedule has no occurrences.
type Schedule struct {
	rule
	fixedTime bool // the hour field does not start with a star
	loc       *time.Location
	canonical string
}

// FixedTime reports whether the hours are named and not "*" or a step of it: a
// local time that the clock skips then fires after the gap, and one that comes
// twice fires once.
func (s Schedule) FixedTime() bool { return s.fixedTime }

// Canonical returns the expression in one spelling: single spaces, values sorted
// and once each, names and 7 as numbers, runs of three or more as a range, a
// leading star kept, seconds only if they are not just 0. Parsing it gives the
// same Schedule.
func (s Schedule) Canonical() string { return s.canonical }

// Zone returns the IANA name the Schedule was parsed with.
func (s Schedule) Zone() string { return s.Location().String() }

// Location returns the Schedule's zone, from the zone data compiled in.
func (s Schedule) Location() *time.Location {
	if s.loc == nil {
		return time.UTC
	}
	return s.loc
}

// An Error says what is wrong with an expression or zone and what to write
// instead.
type Error struct {
	Field  string // "second", "minute", "hour", "day of month", "month", "day of week", "expression" or "timezone"
	Reason string // the rest of the sentence, for the person who wrote it
}

func (e *Error) Error() string { return e.Field + ": " + e.Reason }

func refuse(field, format string, args ...any) *Error {
	return &Error{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// quote shows a piece of the input in a message, without control characters
// and never so long that the message hides the reason.
func quote(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
