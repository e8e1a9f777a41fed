package cron

import "time"

// A span is a stretch of time, in Unix seconds, in which a zone keeps one
// offset. Two neighbours may have the same.
type span struct {
	start, end int64 // [start, end), within the years 1 to 9999
	offset     int64 // seconds east of UTC
}

// spanAt returns the span that contains an instant of those years.
//
// It does not take both bounds from one call of ZoneBounds, because after the
// last transition a zone lists, Go 1.26 answers from the zone's yearly rule
// alone: a start can then lie before that last transition (America/Winamac in
// 2007). So it begins at such a start and goes forward to the instant.
func spanAt(loc *time.Location, unix int64) span {
	sp := span{start: earliest}
	if start, _ := time.Unix(unix, 0).In(loc).ZoneBounds(); !start.IsZero() {
		sp.start = max(sp.start, start.Unix())
	}
	for {
		sp.offset, sp.end = keptUntil(loc, sp.start)
		if sp.end > unix {
			return sp
		}
		sp.start = sp.end
	}
}

// keptUntil returns the offset in force at an instant and an instant after it
// until which it stays.
func keptUntil(loc *time.Location, unix int64) (offset, end int64) {
	t := time.Unix(unix, 0).In(loc)
	_, seconds := t.Zone()
	_, next := t.ZoneBounds()
	switch {
	case next.IsZero() || next.Unix() > latest:
		end = latest + 1
	case next.Unix() <= unix:
		// In a leap year Go 1.26 has a rule's last span end after 365 days,
		// before the 31 December it was asked about. It lasts until the year ends.
		end = unix + secondsPerDay - floorMod(unix, secondsPerDay)
	default:
		end = next.Unix()
	}
	return int64(seconds), end
}

// offsetBefore returns the offset in force until sp began.
func (sp span) offsetBefore(loc *time.Location) int64 {
	if sp.start <= earliest {
		return sp.offset
	}
	_, offset := time.Unix(sp.start-1, 0).In(loc).Zone()
	return int64(offset)
}
