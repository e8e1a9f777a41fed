package cron

import (
	"fmt"
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

// A field is one column of an expression.
type field struct {
	name     string
	min, max int      // max is also the largest step
	names    []string // of the values from min on
}

// Day of week runs to 7 because Vixie cron's does: 7 is Sunday again, and N/step
// runs to it.
var fields = [6]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{name: "day of week", max: 7, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// Indexes of fields, and of everything that has one element for each.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

// Parse reads an expression of five fields (minute, hour, day of month, month,
// day of week) or six (a second in front) for the zone of that exact IANA name.
// It refuses what it cannot schedule, including an expression that matches no
// date of the calendar; every error is an *Error.
func Parse(expr, zone string) (Schedule, error) {
	columns, err := split(expr)
	if err != nil {
		return Schedule{}, err
	}
	var stars [6]bool
	spec := columns
	for i, f := range fields {
		stars[i] = columns[i][0] == '*' || columns[i][0] == '?'
		if spec[i], err = f.check(columns[i]); err != nil {
			return Schedule{}, err
		}
	}
	sets, err := readSets(spec)
	if err != nil {
		return Schedule{}, err
	}
	s := Schedule{rule: newRule(sets, stars), fixedTime: !stars[hour], canonical: canonical(sets, stars)}
	if !s.rule.occurs() {
		return Schedule{}, refuse("expression", "day of month %s never comes in month %s; write a day that one of the months has",
			quote(columns[dayOfMonth]), quote(columns[month]))
	}
	if s.loc, err = loadZone(zone); err != nil {
		return Schedule{}, err
	}
	return s, nil
}

func (f field) isWeek() bool { return f.max == 7 }

// check validates one column and returns it as robfig/cron should read it,
// which is as written but for days of the week that reach 7.
func (f field) check(column string) (string, error) {
	terms := strings.Split(column, ",")
	for i, text := range terms {
		if text == "" {
			return "", refuse(f.name, "%s has an empty element; separate values by single commas", quote(column))
		}
		t, err := f.term(text)
		if err != nil {
			return "", err
		}
		if f.isWeek() && t.hi == 7 && !t.star {
			terms[i] = t.spellOutWeek()
		}
	}
	return strings.Join(terms, ","), nil
}

// A term is one element of a list: lo-hi/step.
type term struct {
	lo, hi, step int
	star         bool
}

// spellOutWeek lists the days of t with 7 as 0, since robfig/cron knows no 7.
func (t term) spellOutWeek() string {
	var days []string
	for d := t.lo; d <= t.hi; d += t.step {
		days = append(days, strconv.Itoa(d%7))
	}
	return strings.Join(days, ",")
}

// term reads *, N, N-M and each of them with /step.
func (f field) term(text string) (term, error) {
	span, step, stepped := strings.Cut(text, "/")
	t, err := f.span(span, stepped)
	if err != nil || !stepped {
		return t, err
	}
	n, ok := number(step)
	if !ok || n < 1 || n > f.max {
		return term{}, refuse(f.name, "the step of %s is not a whole number from 1 to %d; write one, such as %s", quote(text), f.max, quote(span+"/2"))
	}
	t.step = n
	return t, nil
}

// span reads the part of a term before its step. N/step runs to the end of the
// field.
func (f field) span(text string, stepped bool) (term, error) {
	if text == "*" || text == "?" {
		return term{lo: f.min, hi: f.max, step: 1, star: true}, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	lo, err := f.value(from, text)
	if err != nil {
		return term{}, err
	}
	if !isRange && stepped {
		return term{lo: lo, hi: f.max, step: 1}, nil
	}
	if !isRange {
		return term{lo: lo, hi: lo, step: 1}, nil
	}
	hi, err := f.value(to, text)
	if err != nil {
		return term{}, err
	}
	if lo > hi {
		return term{}, refuse(f.name, "the range %s runs backwards; write %s", quote(text), f.forwards(lo, hi))
	}
	return term{lo: lo, hi: hi, step: 1}, nil
}

// forwards spells the range from lo round the end of the field to hi.
func (f field) forwards(lo, hi int) string {
	if f.isWeek() && hi == 0 {
		return fmt.Sprintf(`"%d-7"`, lo)
	}
	last := f.max
	if f.isWeek() {
		last = 6
	}
	return fmt.Sprintf(`"%d-%d,%d-%d" to run past the end, or "%d-%d"`, lo, last, f.min, hi, hi, lo)
}

// value reads a number or name; within is the term to show if it is neither.
func (f field) value(text, within string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, ok := number(text)
	switch {
	case !ok:
		return 0, refuse(f.name, "%s is not something this field can hold; write %s, as *, N, N-M or with /step%s", quote(within), f.values(), hint(within))
	case n < f.min || n > f.max:
		return 0, refuse(f.name, "%s is out of range; write %s", quote(text), f.values())
	}
	return n, nil
}

// values says what a value of f may be.
func (f field) values() string {
	if f.names == nil {
		return fmt.Sprintf("numbers from %d to %d", f.min, f.max)
	}
	return fmt.Sprintf("numbers from %d to %d or names from %s to %s", f.min, f.max, f.names[0], f.names[len(f.names)-1])
}

// hint adds that an extension of another scheduler is known but not taken.
func hint(text string) string {
	sign := strings.ToUpper(strings.Trim(text, "0123456789"))
	switch sign {
	case "L", "W", "LW", "H", "#":
		return fmt.Sprintf(" (the %s of other schedulers is not supported)", sign)
	}
	return ""
}

// number reads ASCII digits. A number too long for an int is as out of range as
// any other above a field's maximum.
func number(text string) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	const outOfRange = 1 << 20
	n, err := strconv.Atoi(text)
	if err != nil {
		return outOfRange, true
	}
	return n, true
}

// readSets has robfig/cron turn checked columns into bit sets. The library
// panics on some texts; check lets none of those known through, and the next
// one must be an error of that expression, not the end of the process.
func readSets(columns [6]string) (sets [6]uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refuse("expression", "it cannot be read (%v); write numbers, lists, ranges and steps only", r)
		}
	}()
	parser := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	parsed, err := parser.Parse(strings.Join(columns[:], " "))
	if err != nil {
		return sets, refuse("expression", "it cannot be read (%v); write numbers, lists, ranges and steps only", err)
	}
	spec := parsed.(*robfig.SpecSchedule)
	const starBit = 1 << 63 // the library's own idea of a star; ours is the text's first character
	for i, set := range [6]uint64{spec.Second, spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow} {
		sets[i] = set &^ starBit
	}
	return sets, nil
}
