package cron

import "math/bits"

// A civil second is what a wall clock shows, as the number of seconds since it
// showed 1970-01-01 00:00:00. It belongs to no zone.

const secondsPerDay = 24 * 60 * 60

// A rule is the part of a schedule that a wall clock and a calendar can decide.
// Its sets have the bit 1<<v for each value v.
type rule struct {
	seconds, minutes uint64
	hours            uint32
	monthDays        uint32
	months           uint16
	weekDays         uint8
	bothDays         bool // monthDays and weekDays must both match, not either
}

func newRule(sets [6]uint64, stars [6]bool) rule {
	return rule{
		seconds:   sets[second],
		minutes:   sets[minute],
		hours:     uint32(sets[hour]),
		monthDays: uint32(sets[dayOfMonth]),
		months:    uint16(sets[month]),
		weekDays:  uint8(sets[dayOfWeek]),
		bothDays:  stars[dayOfMonth] || stars[dayOfWeek],
	}
}

// occurs reports whether any date matches. If weekdays alone may match, one
// does in every month. Otherwise some month must have some of the days, and
// then it has them on each weekday within 40 years: the rarest date, 29 February
// on a given weekday, is at most 40 years from the next, across a year like 2100.
func (r *rule) occurs() bool {
	if !r.bothDays {
		return true
	}
	const leapYear = 2000
	for m := 1; m <= 12; m++ {
		if r.months>>m&1 == 1 && r.monthDays&monthMask(leapYear, m) != 0 {
			return true
		}
	}
	return false
}

// next returns the first civil second in [from, end) that matches.
func (r *rule) next(from, end int64) (int64, bool) {
	date, clock := floorDiv(from, secondsPerDay), int(floorMod(from, secondsPerDay))
	year, m, day := civilDate(date)
	days := r.days(year, m, date-int64(day)+1) &^ (1<<day - 1)
	if days>>day&1 == 1 {
		if t, ok := r.timeFrom(clock); ok {
			c := date*secondsPerDay + int64(t)
			return c, c < end
		}
		days &^= 1 << day
	}
	firstTime, ok := r.timeFrom(0)
	if !ok {
		return 0, false
	}
	for days == 0 {
		if year, m, ok = r.monthAfter(year, m); !ok {
			return 0, false
		}
		first := dayNumber(year, m, 1)
		if first*secondsPerDay >= end {
			return 0, false
		}
		days = r.days(year, m, first)
	}
	c := dayNumber(year, m, bits.TrailingZeros32(days))*secondsPerDay + int64(firstTime)
	return c, c < end
}

// monthAfter returns the first month after m of year that matches.
func (r *rule) monthAfter(year, m int) (int, int, bool) {
	if later := r.months >> (m + 1); later != 0 {
		return year, m + 1 + bits.TrailingZeros16(later), true
	}
	return year + 1, bits.TrailingZeros16(r.months), r.months != 0
}

// days returns the matching days of a month, bit 1<<d for day d. first is the
// day number of its day 1.
func (r *rule) days(year, m int, first int64) uint32 {
	if r.months>>m&1 == 0 {
		return 0
	}
	// Turn the week so that its bit 0 is the weekday of day 1, then repeat it.
	w := floorMod(first+4, 7) // 1970-01-01 was a Thursday
	week := (uint64(r.weekDays)>>w | uint64(r.weekDays)<<(7-w)) & (1<<7 - 1)
	onWeekDays := uint32(week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1)
	if r.bothDays {
		return r.monthDays & onWeekDays & monthMask(year, m)
	}
	return (r.monthDays | onWeekDays) & monthMask(year, m)
}

// timeFrom returns the first matching second of the day at or after clock.
func (r *rule) timeFrom(clock int) (int, bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	if r.hours>>h&1 == 1 {
		if r.minutes>>m&1 == 1 {
			if s, ok := bitFrom(r.seconds, s); ok {
				return h*3600 + m*60 + s, true
			}
		}
		if m, ok := bitFrom(r.minutes, m+1); ok {
			return h*3600 + m*60 + bits.TrailingZeros64(r.seconds), true
		}
	}
	h, ok := bitFrom(uint64(r.hours), h+1)
	return h*3600 + bits.TrailingZeros64(r.minutes)*60 + bits.TrailingZeros64(r.seconds), ok
}

// bitFrom returns the smallest element of set that is at least v.
func bitFrom(set uint64, v int) (int, bool) {
	set = set >> v << v
	return bits.TrailingZeros64(set), set != 0
}

// monthMask returns the days a month has, bit 1<<d for day d.
func monthMask(year, m int) uint32 {
	const thirty = 1<<4 | 1<<6 | 1<<9 | 1<<11
	switch {
	case m == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 1<<30 - 2
	case m == 2:
		return 1<<29 - 2
	case thirty>>m&1 == 1:
		return 1<<31 - 2
	}
	return 1<<32 - 2
}

// dayNumber returns the days from 1970-01-01 to a date. Years are counted from
// March, so that the leap day is the last of its year, in cycles of 400 years.
func dayNumber(year, m, day int) int64 {
	y := int64(year)
	if m <= 2 {
		y--
	}
	cycle := floorDiv(y, 400)
	yearOfCycle := y - cycle*400
	dayOfYear := int64((153*((m+9)%12)+2)/5 + day - 1)
	return cycle*146097 + yearOfCycle*365 + yearOfCycle/4 - yearOfCycle/100 + dayOfYear - 719468
}

// civilDate is the inverse of dayNumber.
func civilDate(date int64) (year, m, day int) {
	date += 719468
	cycle := floorDiv(date, 146097)
	d := date - cycle*146097
	yearOfCycle := (d - d/1460 + d/36524 - d/146096) / 365
	dayOfYear := int(d - (365*yearOfCycle + yearOfCycle/4 - yearOfCycle/100))
	mp := (5*dayOfYear + 2) / 153
	day = dayOfYear - (153*mp+2)/5 + 1
	m = (mp+2)%12 + 1
	year = int(yearOfCycle + cycle*400)
	if m <= 2 {
		year++
	}
	return year, m, day
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
