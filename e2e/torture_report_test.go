//go:build torture

package e2e

import (
	"maps"
	"slices"
)

// What is counted, and so reported, under which heading.
const (
	happened = "what was injected, and what was asked for"
	unheard  = "what the harness itself was not answered"
	blamed   = "log lines that the faults explain"
	warned   = "other warnings in the logs"
)

func (w *torture) count(heading, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[heading] == nil {
		w.counts[heading] = map[string]int{}
	}
	w.counts[heading][what]++
}

// printCounts prints everything that was counted: of what might have happened also what did not.
func (w *torture) printCounts() {
	w.printf("%6s  %s", "times", happened)
	for _, what := range slices.Concat(tortureFaults, tortureDeeds) {
		w.printf("%6d  %s", w.counts[happened][what], what)
	}
	for _, heading := range []string{unheard, blamed, warned} {
		if len(w.counts[heading]) == 0 {
			continue
		}
		w.printf("%6s  %s", "times", heading)
		for _, what := range slices.Sorted(maps.Keys(w.counts[heading])) {
			w.printf("%6d  %s", w.counts[heading][what], what)
		}
	}
}
