package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// maxTimes is how many times of day are listed one by one.
const maxTimes = 6

// Words says in English when the schedule falls due on its zone's clock: "at
// 02:30 every day", "every 15 minutes from 09:00 to 17:59, Monday to Friday". A
// combination without a natural sentence gets a long one, never a loose one.
// What daylight-saving changes do to it is not part of the sentence.
func (s Schedule) Words() string {
	if s.months == 0 {
		return "never"
	}
	if s.timesPerDay() > maxTimes {
		return s.intervalWords() + s.dayWords(", ", "")
	}
	return "at " + s.timesOfDay() + s.dayWords(" ", " every day")
}

func (r *rule) timesPerDay() int {
	return bits.OnesCount32(r.hours) * bits.OnesCount64(r.minutes) * bits.OnesCount64(r.seconds)
}

// timesOfDay lists every time.
func (r *rule) timesOfDay() string {
	var times []string
	for t, ok := r.timeFrom(0); ok; t, ok = r.timeFrom(t + 1) {
		times = append(times, r.clock(t))
	}
	return join(times, "and")
}

// clock writes a second of the day; the second itself only if the rule needs it.
func (r *rule) clock(t int) string {
	if r.seconds == 1 {
		return fmt.Sprintf("%02d:%02d", t/3600, t/60%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", t/3600, t/60%60, t%60)
}

// intervalWords describes times of day that are too many to list.
func (r *rule) intervalWords() string {
	step, even := evenStep(minute, r.minutes)
	switch lo, hi, hours, ok := progression(uint64(r.hours)); {
	case single(r.minutes) && single(r.seconds) && ok:
		return every(hours, "hour") + r.hourlyWords(lo, hi)
	case single(r.seconds) && even:
		return every(step, "minute") + r.atSecond(" at ") + r.hourWords(false)
	case single(r.seconds):
		return "at " + values("minute", r.minutes) + r.atSecond(" and ") + r.hourWords(true)
	}
	words := "at " + values("second", r.seconds)
	step, even = evenStep(second, r.seconds)
	if even {
		words = every(step, "second")
	}
	switch {
	case r.minutes != full[minute]:
		return words + " of " + values("minute", r.minutes) + r.hourWords(true)
	case even:
		return words + r.hourWords(false)
	}
	return words + " of every minute" + r.hourWords(false)
}

// hourlyWords says at which minute and second of hours lo to hi.
func (r *rule) hourlyWords(lo, hi int) string {
	past := bits.TrailingZeros64(r.minutes)*60 + bits.TrailingZeros64(r.seconds)
	switch {
	case uint64(r.hours) != full[hour]:
		return " from " + r.clock(lo*3600+past) + " to " + r.clock(hi*3600+past)
	case past == 0:
		return ""
	}
	return " at " + values("minute", r.minutes) + r.atSecond(" and ")
}

// atSecond names, after sep, a single second that is not 0.
func (r *rule) atSecond(sep string) string {
	if r.seconds == 1 {
		return ""
	}
	return sep + values("second", r.seconds)
}

// hourWords says during which hours. ofEach is set after a minute of the hour.
func (r *rule) hourWords(ofEach bool) string {
	hours := uint64(r.hours)
	lo, hi, step, ok := progression(hours)
	var which string
	switch {
	case hours == full[hour]:
	case ok && step == 1:
		which = " from " + r.clock(lo*3600) + " to " + r.clock(hi*3600+3599)
	case ofEach:
		return " of " + values("hour", hours)
	default:
		return " during " + values("hour", hours)
	}
	if ofEach {
		return " of every hour" + which
	}
	return which
}

// dayWords says on which days, after sep, or returns everyDay if on all.
func (r *rule) dayWords(sep, everyDay string) string {
	allDays, allWeek := uint64(r.monthDays) == full[dayOfMonth], uint64(r.weekDays) == full[dayOfWeek]
	if !r.bothDays && (allDays || allWeek) {
		allDays, allWeek = true, true
	}
	allMonths := uint64(r.months) == full[month]
	switch {
	case allDays && allWeek && allMonths:
		return everyDay
	case allDays && allWeek:
		return sep + "every day in " + r.monthWords()
	case allDays && allMonths && isRange(uint64(r.weekDays)):
		return ", " + r.weekWords("and")
	case allDays && allMonths:
		return sep + "every " + r.weekWords("and")
	case allDays:
		return sep + "every " + r.weekWords("or") + " in " + r.monthWords()
	case allWeek:
		return sep + r.monthDayWords()
	case r.bothDays:
		return sep + r.monthDayWords() + ", but only on a " + r.weekWords("or")
	}
	words := sep + r.monthDayWords() + " and also every " + r.weekWords("or")
	if allMonths {
		return words
	}
	return words + " in " + r.monthWords()
}

// monthDayWords names days of the month.
func (r *rule) monthDayWords() string {
	words := "on " + values("day", uint64(r.monthDays)) + " of " + r.monthWords()
	where := " where they exist"
	if single(uint64(r.monthDays)) {
		where = " where it exists"
	}
	const commonYear = 2001
	for m := 1; m <= 12; m++ {
		if r.months>>m&1 == 1 && r.monthDays&^monthMask(commonYear, m) != 0 {
			return words + where
		}
	}
	return words
}

func (r *rule) monthWords() string {
	if uint64(r.months) == full[month] {
		return "every month"
	}
	return list(uint64(r.months), " to ", ", ", " and ", func(m int) string { return time.Month(m).String() })
}

func (r *rule) weekWords(conjunction string) string {
	return list(uint64(r.weekDays), " to ", ", ", " "+conjunction+" ", func(d int) string { return time.Weekday(d).String() })
}

// values writes "minute 5", "minutes 5 and 20", "days 1 to 31 in steps of 2".
func values(unit string, set uint64) string {
	if single(set) {
		return unit + " " + strconv.Itoa(bits.TrailingZeros64(set))
	}
	lo, hi, step, ok := progression(set)
	if ok && step > 1 && bits.OnesCount64(set) > maxTimes {
		return fmt.Sprintf("%ss %d to %d in steps of %d", unit, lo, hi, step)
	}
	return unit + "s " + list(set, " to ", ", ", " and ", strconv.Itoa)
}

func every(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// evenStep returns the n for which set is */n and n divides the field's size.
func evenStep(i int, set uint64) (int, bool) {
	size := bits.OnesCount64(full[i])
	for n := 1; n < size; n++ {
		if size%n == 0 && multiples(i, n) == set {
			return n, true
		}
	}
	return 0, false
}

// progression reports whether the elements of set are equally far apart.
func progression(set uint64) (lo, hi, step int, ok bool) {
	lo, hi = bits.TrailingZeros64(set), bits.Len64(set)-1
	if single(set) {
		return lo, hi, 1, true
	}
	next, _ := bitFrom(set, lo+1)
	step = next - lo
	var want uint64
	for v := lo; v <= hi; v += step {
		want |= 1 << v
	}
	return lo, hi, step, want == set
}

func single(set uint64) bool { return bits.OnesCount64(set) == 1 }

// isRange reports whether list writes set as one range.
func isRange(set uint64) bool {
	_, _, step, ok := progression(set)
	return ok && step == 1 && bits.OnesCount64(set) > 2
}

func join(items []string, conjunction string) string {
	last := len(items) - 1
	if last == 0 {
		return items[0]
	}
	return strings.Join(items[:last], ", ") + " " + conjunction + " " + items[last]
}
