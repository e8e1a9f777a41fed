package cron

import "time"

// Occurrences lie in the years that RFC 3339 can write.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

const (
	// horizonYears is how far ahead Next looks. The rarest date comes again
	// after 40 years.
	horizonYears = 41

	// reach is more than an instant and the civil second it fires for can lie
	// apart (16 hours of offset, a whole skipped day), and less than two changes
	// of offset ever do, which TestChangesAreFarApart checks for all zones.
	reach = 48 * 60 * 60
)

// Next returns the first occurrence strictly after a time, in UTC, or false if
// there is none within 41 years.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	from, until := window(after)
	if unix, ok := s.first(from, until); ok {
		return time.Unix(unix, 0).UTC(), true
	}
	return time.Time{}, false
}

// window returns the first and the last second in which to look for what comes
// after a time.
func window(after time.Time) (from, until int64) {
	if after.Year() > 9999 {
		return latest + 1, latest
	}
	until = min(after.AddDate(horizonYears, 0, 0).Unix(), latest)
	if after.Year() < 1 {
		return earliest, until
	}
	return after.Unix() + 1, until
}

// first returns the first occurrence in [from, until].
func (s *Schedule) first(from, until int64) (int64, bool) {
	for from <= until {
		// Whatever happens at or after from is for a civil second within reach
		// of it, so nothing happens until the first of those comes near.
		c, ok := s.next(from-reach, until+reach)
		if !ok {
			return 0, false
		}
		from = max(from, c-reach)
		sp := spanAt(s.loc, from)
		if unix, ok := s.firstIn(sp, from); ok {
			return unix, unix <= until
		}
		from = sp.end
	}
	return 0, false
}

// firstIn returns the first occurrence in the part of sp that begins at from.
func (s *Schedule) firstIn(sp span, from int64) (int64, bool) {
	lo := from + sp.offset
	if s.fixedTime && from < sp.start+reach {
		// sp.start, read on the clock of the span before, is where civil time
		// had got to: what lies between it and lo was either skipped or is
		// being repeated.
		had := sp.start + sp.offsetBefore(s.loc)
		if from == sp.start && s.skips(had, lo) {
			return from, true
		}
		lo = max(lo, had)
	}
	c, ok := s.next(lo, sp.end+sp.offset)
	return c - sp.offset, ok
}

// skips reports whether a matching civil second lies in a gap [from, end).
func (s *Schedule) skips(from, end int64) bool {
	if from >= end {
		return false
	}
	_, ok := s.next(from, end)
	return ok
}

// Last returns the latest occurrence in (after, notAfter], in UTC. It halves
// the interval, so its cost grows with the logarithm of the interval and not
// with the number of occurrences.
func (s Schedule) Last(after, notAfter time.Time) (time.Time, bool) {
	from, _ := window(after)
	until := min(notAfter.Unix(), latest)
	if notAfter.Year() > 9999 {
		until = latest
	}
	last, ok := s.first(from, until)
	if !ok {
		return time.Time{}, false
	}
	// last is an occurrence, and there is none in [none, until].
	for none := until + 1; last+1 < none; {
		middle := last + 1 + (none-last-1)/2
		if unix, ok := s.first(middle, until); ok {
			last = unix
		} else {
			none = middle
		}
	}
	return time.Unix(last, 0).UTC(), true
}

// Count returns how many occurrences lie strictly between two times. It stops
// counting at limit; atLeast then says that there are more.
func (s Schedule) Count(after, before time.Time, limit int) (n int, atLeast bool) {
	for {
		next, ok := s.Next(after)
		if !ok || !next.Before(before) {
			return n, false
		}
		if n >= limit {
			return n, true
		}
		n, after = n+1, next
	}
}

// What a daylight-saving change does to an occurrence.
const (
	// MarkGap is an occurrence for a local time that the clock skips, moved to
	// the end of the gap.
	MarkGap = "gap"
	// MarkRepeated is an occurrence at a local time that comes twice.
	MarkRepeated = "repeated"
)

// An Occurrence is one instant at which a Schedule is due.
type Occurrence struct {
	At   time.Time // in UTC
	Mark string    // "", MarkGap or MarkRepeated
	Pass int       // if the local time is repeated, whether At is its first (1) or second (2) time; else 0
}

// Occurrences returns the next n occurrences strictly after a time; fewer if
// the next of them is more than 41 years from the one before.
func (s Schedule) Occurrences(after time.Time, n int) []Occurrence {
	var list []Occurrence
	for len(list) < n {
		next, ok := s.Next(after)
		if !ok {
			break
		}
		list = append(list, s.Describe(next))
		after = next
	}
	return list
}

// Describe marks at, which must be an occurrence.
func (s Schedule) Describe(at time.Time) Occurrence {
	unix := at.Unix()
	sp := spanAt(s.loc, unix)
	c := unix + sp.offset
	if unix < sp.start+reach {
		had := sp.start + sp.offsetBefore(s.loc)
		switch {
		case s.fixedTime && unix == sp.start && s.skips(had, c):
			return Occurrence{At: at, Mark: MarkGap}
		case c < had:
			return Occurrence{At: at, Mark: MarkRepeated, Pass: 2}
		}
	}
	if sp.end <= latest && c >= sp.end+spanAt(s.loc, sp.end).offset {
		return Occurrence{At: at, Mark: MarkRepeated, Pass: 1}
	}
	return Occurrence{At: at}
}
