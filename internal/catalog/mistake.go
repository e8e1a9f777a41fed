package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Mistake is one thing wrong with a manifest. It never holds the value that
// is wrong, which may be a secret.
type Mistake struct {
	File   string
	Line   int    // from 1
	Field  string // path such as projects[0].tasks[2].env.TOKEN; empty for the file as a whole
	Reason string // says what to write instead
}

// Error returns file:line: field: reason.
func (m Mistake) Error() string {
	where := fmt.Sprintf("%s:%d: ", m.File, m.Line)
	if m.Field != "" {
		where += m.Field + ": "
	}
	return where + m.Reason
}

// Mistakes are all the mistakes found in one manifest, in the order of its lines.
type Mistakes []Mistake

// mostTold is how many mistakes are told of in words: of more, something is wrong that is told by the first.
const mostTold = 100

// Error returns one line for each of the first [mostTold] mistakes, and how many more there are.
func (ms Mistakes) Error() string {
	var lines []string
	for _, m := range ms[:min(len(ms), mostTold)] {
		lines = append(lines, m.Error())
	}
	if more := len(ms) - mostTold; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// err returns the mistakes in line order, or nil if there are none.
func (ms Mistakes) err() error {
	if len(ms) == 0 {
		return nil
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	return ms
}
