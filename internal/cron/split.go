package cron

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxLength bounds an expression, in bytes. Every value of every field spelled
// out is half of it.
const maxLength = 1024

// macros are the names other schedulers give to expressions.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// split returns the six columns of expr, the seconds being 0 if it has five.
func split(expr string) (columns [6]string, err error) {
	text := strings.Trim(expr, " \t")
	switch {
	case text == "":
		return columns, refuse("expression", `it is empty; write five fields such as "0 3 * * *"`)
	case len(text) > maxLength:
		return columns, refuse("expression", "it is longer than %d characters; write ranges and steps instead of lists", maxLength)
	case text[0] == '@':
		return columns, refuseMacro(text)
	case strings.Contains(text, "="):
		return columns, refuseAssignment(text)
	}
	if err := checkCharacters(text); err != nil {
		return columns, err
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	switch len(words) {
	case 5:
		columns[second] = "0"
		copy(columns[minute:], words)
	case 6:
		copy(columns[:], words)
	default:
		return columns, refuse("expression", "%s has %d fields; write five (minute, hour, day of month, month, day of week) or six (second first)", quote(text), len(words))
	}
	return columns, nil
}

// checkCharacters refuses what looks like a blank or a digit and is neither.
func checkCharacters(text string) error {
	for _, r := range text {
		switch {
		case r == utf8.RuneError:
			return refuse("expression", "%s is not valid UTF-8; write plain ASCII", quote(text))
		case r != '\t' && r < ' ' || r > '~':
			return refuse("expression", "%s contains the character %U; write ASCII digits and separate fields by spaces or tabs", quote(text), r)
		}
	}
	return nil
}

func refuseMacro(text string) error {
	name, rest, _ := strings.Cut(strings.ToLower(text), " ")
	if same, ok := macros[name]; ok {
		return refuse("expression", "macros such as %s are not supported; write %q", quote(text), same)
	}
	if name != "@every" {
		return refuse("expression", `%s is not supported; write five fields such as "0 3 * * *"`, quote(text))
	}
	same, ok := everyAsCron(strings.TrimSpace(rest))
	if !ok {
		return refuse("expression", `%s is not a wall-clock schedule; write one, such as "*/5 * * * *" for every five minutes`, quote(text))
	}
	return refuse("expression", "%s is not a wall-clock schedule; write %q", quote(text), same)
}

// everyAsCron returns the expression for a period that divides the next larger
// unit of time; no other period has one.
func everyAsCron(period string) (string, bool) {
	d, err := time.ParseDuration(period)
	if err != nil || d <= 0 {
		return "", false
	}
	units := []struct {
		unit, next time.Duration
		format     string
	}{
		{time.Second, time.Minute, "*/%d * * * * *"},
		{time.Minute, time.Hour, "*/%d * * * *"},
		{time.Hour, 24 * time.Hour, "0 */%d * * *"},
	}
	for _, u := range units {
		if d%u.unit == 0 && d < u.next && u.next%d == 0 {
			return fmt.Sprintf(u.format, d/u.unit), true
		}
	}
	return "", false
}

// refuseAssignment answers TZ=Zone and CRON_TZ=Zone in front of an expression,
// which other schedulers take and robfig/cron panics on when no blank follows.
func refuseAssignment(text string) error {
	name, rest, _ := strings.Cut(text, "=")
	zone, fields, _ := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
	if (name != "TZ" && name != "CRON_TZ") || zone == "" || fields == "" {
		return refuse("expression", `%s contains "="; write five fields such as "0 3 * * *" here and the zone in its own field`, quote(text))
	}
	return refuse("expression", "the zone has its own field; write %s there and %s here", quote(zone), quote(strings.TrimSpace(fields)))
}
