// Package text holds what the console says to people, apart from the language it is said in.
//
// A [Text] is a message and what stands in its places. The message is written in English, where it is said, and is
// itself the key by which a [Catalogue] knows it in another language; what stands in its places (a name, a number, an id)
// is nobody's to translate, unless it is a Text itself. So whoever finds something says it once, a log and the command
// line print it as it stands, and a page words it for its reader when it is written.
package text

import (
	"fmt"
	"strconv"
	"strings"
)

// A Text is something said to a person. The zero Text says nothing.
type Text struct {
	message string // or, of what is no message, all that it says
	args    []any
	data    bool // it is no message
}

// A Catalogue knows messages in one language, by what they are in English. A message it lacks stays English.
type Catalogue map[string]string

// place is one in a message.
const place = "%s"

// Of says message, whose only verb is %s, or %[2]s where a language changes the order. An argument is a string, which is
// shown as it is, an integer, which is shown with its thousands apart, a Text, or anything that fmt prints.
func Of(message string, args ...any) Text { return Text{message: message, args: args} }

// Count says one when n is 1, and otherwise many, whose first place n takes.
func Count(n int, one, many string) Text {
	if n == 1 {
		return Text{message: one}
	}
	return Text{message: many, args: []any{n}}
}

// Data is a text that no language changes: a name, an id, what somebody typed.
func Data(s string) Text { return Text{message: s, data: s != ""} }

// Join says parts one after another with sep between them, leaving out those that say nothing.
func Join(sep Text, parts ...Text) Text {
	var list []any
	for _, p := range parts {
		if p.Empty() {
			continue
		}
		if len(list) > 0 {
			list = append(list, sep)
		}
		list = append(list, p)
	}
	return Text{message: strings.Repeat(place, len(list)), args: list}
}

// Empty reports whether t says nothing.
func (t Text) Empty() bool { return t.message == "" }

// Map is t with f of all that stands in its places as it is, also in those of a Text there. A number stays as it is.
func (t Text) Map(f func(string) string) Text {
	if t.data {
		return Data(f(t.message))
	}
	args := make([]any, len(t.args))
	for i, a := range t.args {
		switch a := a.(type) {
		case int, int64:
			args[i] = a
		case Text:
			args[i] = a.Map(f)
		default:
			args[i] = f(fmt.Sprint(a))
		}
	}
	return Text{message: t.message, args: args}
}

// String says t in English.
func (t Text) String() string { return t.In(nil) }

// In says t as c knows it.
func (t Text) In(c Catalogue) string {
	if t.data {
		return t.message
	}
	message, ok := c[t.message]
	if !ok {
		message = t.message
	}
	if len(t.args) == 0 { // then its places, if it has any, are for somebody else to fill
		return message
	}
	if message == place {
		return word(t.args[0], c)
	}
	if strings.Contains(message, "%[") { // in another order
		words := make([]any, len(t.args))
		for i, a := range t.args {
			words[i] = word(a, c)
		}
		return fmt.Sprintf(message, words...)
	}
	var said strings.Builder
	for _, a := range t.args {
		before, after, _ := strings.Cut(message, place)
		said.WriteString(before)
		said.WriteString(word(a, c))
		message = after
	}
	said.WriteString(message)
	return said.String()
}

func word(a any, c Catalogue) string {
	switch a := a.(type) {
	case string:
		return a
	case Text:
		return a.In(c)
	case int:
		return Digits(int64(a))
	case int64:
		return Digits(a)
	}
	return fmt.Sprint(a)
}

// Digits writes n with its thousands apart: 10,000.
func Digits(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Equal reports whether both say the same in English. Tests compare view models by it.
func (t Text) Equal(u Text) bool { return t.String() == u.String() }

// MarshalText writes t in English, which is what a client gets.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
