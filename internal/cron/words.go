package cron

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/qinglong/console/internal/text"
)

// maxTimes is how many times of day are listed one by one.
const maxTimes = 6

// Words says when the schedule falls due on its zone's clock: "at 02:30 every
// day", "every 15 minutes from 09:00 to 17:59, Monday to Friday". A combination
// without a natural sentence gets a long one, never a loose one. What
// daylight-saving changes do to it is not part of the sentence.
func (s Schedule) Words() text.Text {
	if s.months == 0 {
		return text.Of("never")
	}
	days := s.dayWords()
	switch {
	case s.timesPerDay() > maxTimes && days.Empty():
		return s.intervalWords()
	case s.timesPerDay() > maxTimes:
		return text.Of("%s, %s", s.intervalWords(), days)
	case days.Empty():
		return text.Of("at %s every day", s.timesOfDay())
	case s.isWeek():
		return text.Of("at %s, %s", s.timesOfDay(), days)
	}
	return text.Of("at %s %s", s.timesOfDay(), days)
}

func (r *rule) timesPerDay() int {
	return bits.OnesCount32(r.hours) * bits.OnesCount64(r.minutes) * bits.OnesCount64(r.seconds)
}

// timesOfDay lists every time.
func (r *rule) timesOfDay() text.Text {
	var times []text.Text
	for t, ok := r.timeFrom(0); ok; t, ok = r.timeFrom(t + 1) {
		times = append(times, text.Data(r.clock(t)))
	}
	return all(times)
}

// clock writes a second of the day; the second itself only if the rule needs it.
func (r *rule) clock(t int) string {
	if r.seconds == 1 {
		return fmt.Sprintf("%02d:%02d", t/3600, t/60%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", t/3600, t/60%60, t%60)
}

// intervalWords describes times of day that are too many to list.
func (r *rule) intervalWords() text.Text {
	step, even := evenStep(minute, r.minutes)
	switch lo, hi, hours, ok := progression(uint64(r.hours)); {
	case single(r.minutes) && single(r.seconds) && ok:
		return r.hourlyWords(lo, hi, hours)
	case single(r.seconds) && even:
		return r.during(r.everyMinutes(step))
	case single(r.seconds):
		return text.Of("at %s", r.ofHours(r.minuteWords()))
	}
	which := aSecond.words(r.seconds)
	step, even = evenStep(second, r.seconds)
	switch every := text.Count(step, "every second", "every %s seconds"); {
	case even && r.minutes == full[minute]:
		return r.during(every)
	case even:
		return r.ofHours(text.Of("%s of %s", every, aMinute.words(r.minutes)))
	case r.minutes == full[minute]:
		return text.Of("at %s", r.during(text.Of("%s of every minute", which)))
	}
	return text.Of("at %s", r.ofHours(text.Of("%s of %s", which, aMinute.words(r.minutes))))
}

// hourlyWords says at which minute and second of every so many hours from lo to hi.
func (r *rule) hourlyWords(lo, hi, hours int) text.Text {
	every := text.Count(hours, "every hour", "every %s hours")
	past := bits.TrailingZeros64(r.minutes)*60 + bits.TrailingZeros64(r.seconds)
	switch {
	case uint64(r.hours) != full[hour]:
		return text.Of("%s from %s to %s", every, r.clock(lo*3600+past), r.clock(hi*3600+past))
	case past == 0:
		return every
	}
	return text.Of("every hour at %s", r.minuteWords())
}

// everyMinutes says that it is every n minutes, at its single second.
func (r *rule) everyMinutes(n int) text.Text {
	past := bits.TrailingZeros64(r.seconds)
	switch {
	case past == 0:
		return text.Count(n, "every minute", "every %s minutes")
	case n == 1:
		return text.Of("every minute at second %s", past)
	}
	return text.Of("every %s minutes at second %s", n, past)
}

// minuteWords names the minutes, and their single second if it is not 0.
func (r *rule) minuteWords() text.Text {
	if r.seconds == 1 {
		return aMinute.words(r.minutes)
	}
	return text.Of("%s and second %s", aMinute.words(r.minutes), bits.TrailingZeros64(r.seconds))
}

// ofHours says of which hours x is, which is a part of one.
func (r *rule) ofHours(x text.Text) text.Text {
	from, to, ok := r.hourRange()
	switch {
	case uint64(r.hours) == full[hour]:
		return text.Of("%s of every hour", x)
	case ok:
		return text.Of("%s of every hour from %s to %s", x, from, to)
	}
	return text.Of("%s of %s", x, anHour.words(uint64(r.hours)))
}

// during says in which hours there is x, which comes again and again.
func (r *rule) during(x text.Text) text.Text {
	from, to, ok := r.hourRange()
	switch {
	case uint64(r.hours) == full[hour]:
		return x
	case ok:
		return text.Of("%s from %s to %s", x, from, to)
	}
	return text.Of("%s during %s", x, anHour.words(uint64(r.hours)))
}

// hourRange is from when to when the hours are, if they are one after another.
func (r *rule) hourRange() (from, to string, ok bool) {
	lo, hi, step, ok := progression(uint64(r.hours))
	return r.clock(lo * 3600), r.clock(hi*3600 + 3599), ok && step == 1
}

// open reports what the rule leaves open.
func (r *rule) open() (everyDay, everyWeekDay, everyMonth bool) {
	everyDay, everyWeekDay = uint64(r.monthDays) == full[dayOfMonth], uint64(r.weekDays) == full[dayOfWeek]
	if !r.bothDays && (everyDay || everyWeekDay) {
		everyDay, everyWeekDay = true, true
	}
	return everyDay, everyWeekDay, uint64(r.months) == full[month]
}

// isWeek reports whether the days are one range of the week and nothing else.
func (r *rule) isWeek() bool {
	everyDay, everyWeekDay, everyMonth := r.open()
	return everyDay && !everyWeekDay && everyMonth && isRange(uint64(r.weekDays))
}

// dayWords says on which days, or nothing if on all.
func (r *rule) dayWords() text.Text {
	everyDay, everyWeekDay, everyMonth := r.open()
	switch {
	case everyDay && everyWeekDay && everyMonth:
		return text.Text{}
	case everyDay && everyWeekDay:
		return text.Of("every day in %s", r.monthWords())
	case r.isWeek():
		return all(r.weekWords())
	case everyDay && everyMonth:
		return text.Of("every %s", all(r.weekWords()))
	case everyDay:
		return text.Of("every %s in %s", either(r.weekWords()), r.monthWords())
	case everyWeekDay:
		return r.monthDayWords()
	case r.bothDays:
		return text.Of("%s, but only on a %s", r.monthDayWords(), either(r.weekWords()))
	case everyMonth:
		return text.Of("%s and also every %s", r.monthDayWords(), either(r.weekWords()))
	}
	return text.Of("%s and also every %s in %s", r.monthDayWords(), either(r.weekWords()), r.monthWords())
}

// monthDayWords names days of the month.
func (r *rule) monthDayWords() text.Text {
	words := text.Of("on %s of every month", aDay.words(uint64(r.monthDays)))
	if uint64(r.months) != full[month] {
		words = text.Of("on %s of %s", aDay.words(uint64(r.monthDays)), r.monthWords())
	}
	const commonYear = 2001
	for m := 1; m <= 12; m++ {
		if r.months>>m&1 == 1 && r.monthDays&^monthMask(commonYear, m) != 0 {
			return whereThere(words, single(uint64(r.monthDays)))
		}
	}
	return words
}

func whereThere(days text.Text, one bool) text.Text {
	if one {
		return text.Of("%s where it exists", days)
	}
	return text.Of("%s where they exist", days)
}

var monthNames = [...]text.Text{1: text.Of("January"), text.Of("February"), text.Of("March"), text.Of("April"), text.Of("May"), text.Of("June"),
	text.Of("July"), text.Of("August"), text.Of("September"), text.Of("October"), text.Of("November"), text.Of("December")}

var weekDayNames = [...]text.Text{text.Of("Sunday"), text.Of("Monday"), text.Of("Tuesday"), text.Of("Wednesday"), text.Of("Thursday"), text.Of("Friday"), text.Of("Saturday")}

// monthWords names the months, which are not all.
func (r *rule) monthWords() text.Text {
	return all(elements(uint64(r.months), func(m int) text.Text { return monthNames[m] }))
}

func (r *rule) weekWords() []text.Text {
	return elements(uint64(r.weekDays), func(d int) text.Text { return weekDayNames[d] })
}

// elements names the values of set, a run of three or more as its ends.
func elements(set uint64, name func(int) text.Text) []text.Text {
	var list []text.Text
	for lo, hi := range runs(set) {
		element := name(lo)
		if lo < hi {
			element = text.Of("%s to %s", element, name(hi))
		}
		list = append(list, element)
	}
	return list
}

// all says that every one of list is meant.
func all(list []text.Text) text.Text {
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return text.Of("%s and %s", text.Join(text.Of(", "), list[:last]...), list[last])
}

// either says that one of list is enough.
func either(list []text.Text) text.Text {
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return text.Of("%s or %s", text.Join(text.Of(", "), list[:last]...), list[last])
}

// A unit names the values of one field.
type unit struct {
	one, several func(text.Text) text.Text
	steps        func(lo, hi, step int) text.Text
}

var (
	aSecond = unit{
		one:     func(n text.Text) text.Text { return text.Of("second %s", n) },
		several: func(n text.Text) text.Text { return text.Of("seconds %s", n) },
		steps:   func(lo, hi, step int) text.Text { return text.Of("seconds %s to %s in steps of %s", lo, hi, step) },
	}
	aMinute = unit{
		one:     func(n text.Text) text.Text { return text.Of("minute %s", n) },
		several: func(n text.Text) text.Text { return text.Of("minutes %s", n) },
		steps:   func(lo, hi, step int) text.Text { return text.Of("minutes %s to %s in steps of %s", lo, hi, step) },
	}
	anHour = unit{
		one:     func(n text.Text) text.Text { return text.Of("hour %s", n) },
		several: func(n text.Text) text.Text { return text.Of("hours %s", n) },
		steps:   func(lo, hi, step int) text.Text { return text.Of("hours %s to %s in steps of %s", lo, hi, step) },
	}
	aDay = unit{
		one:     func(n text.Text) text.Text { return text.Of("day %s", n) },
		several: func(n text.Text) text.Text { return text.Of("days %s", n) },
		steps:   func(lo, hi, step int) text.Text { return text.Of("days %s to %s in steps of %s", lo, hi, step) },
	}
)

// words writes "minute 5", "minutes 5 and 20", "days 1 to 31 in steps of 2".
func (u unit) words(set uint64) text.Text {
	numbers := all(elements(set, digits))
	if single(set) {
		return u.one(numbers)
	}
	lo, hi, step, ok := progression(set)
	if ok && step > 1 && bits.OnesCount64(set) > maxTimes {
		return u.steps(lo, hi, step)
	}
	return u.several(numbers)
}

func digits(n int) text.Text { return text.Data(strconv.Itoa(n)) }

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

// isRange reports whether [elements] names set as one range.
func isRange(set uint64) bool {
	_, _, step, ok := progression(set)
	return ok && step == 1 && bits.OnesCount64(set) > 2
}
