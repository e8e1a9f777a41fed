//go:build torture

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A trouble is when an injected fault may have shown in the logs of whom.
type trouble struct {
	who      string // "" for everybody
	from, to time.Time
}

// aftermath is how long a fault shows after its end: statements, gates and settling have deadlines of their own.
const aftermath = 15 * time.Second

// troubled remembers a fault that is over now.
func (w *torture) troubled(lane string, s move, began time.Time) {
	if !slices.Contains(tortureFaults, s.Do) || lane == "publisher" {
		return
	}
	who := lane
	if lane == "database" {
		who = ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = append(w.trouble, trouble{who, began, time.Now().Add(aftermath)})
}

func (w *torture) explained(who string, at time.Time) bool {
	return slices.ContainsFunc(w.trouble, func(t trouble) bool {
		return (t.who == "" || t.who == who) && t.from.Add(-time.Second).Before(at) && at.Before(t.to)
	})
}

// What a server that is being tortured may say: connections that fail (08, 57P0), conflicts (40001, 40P01), deadlines
// (57014, 25P03, 55P03), and what it has no room for (53, 58030; and XX000 of a file that a new connection wants to
// write). What is no answer of a server's is a connection that failed, or a deadline.
var (
	causes    = regexp.MustCompile(`SQLSTATE \w{5}|connection refused|connection reset|broken pipe|\bEOF\b|i/o timeout|deadline exceeded|conn closed|closed network connection`)
	sqlState  = regexp.MustCompile(`SQLSTATE (\w{5})`)
	ordinary  = regexp.MustCompile(`^(08|57P0|40001|40P01|57014|25P0[34]|55P03|53|58030)`)
	noRoom    = "could not write init file (SQLSTATE XX000)"
	unheardOf = regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d|WARNING: DATA RACE)`)
)

// readLogs looks into everything that the replicas have written, and keeps it. What says ERROR must have a fault that
// explains it.
func (w *torture) readLogs() {
	w.Helper()
	for _, m := range w.members {
		for i, life := range m.lives {
			text := life.output.String()
			if err := os.WriteFile(filepath.Join(w.ArtifactDir(), fmt.Sprintf("%s-%03d.log", m.name, i)), []byte(text), 0o644); err != nil {
				w.Error(err)
			}
			if found := unheardOf.FindString(text); found != "" {
				w.Errorf("%s wrote %q:\n%s", m.name, found, text)
			}
			for line := range strings.Lines(text) {
				w.readLine(m, line)
			}
		}
	}
}

func (w *torture) readLine(m *member, line string) {
	w.Helper()
	var said struct {
		Time       time.Time
		Level, Msg string
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		w.finding("%s wrote what is no line of a log: %s", m.name, line)
		return
	}
	if said.Level != "ERROR" && said.Level != "WARN" {
		return
	}
	explained := w.explained(m.name, said.Time.Add(-m.skew))
	for _, state := range sqlState.FindAllStringSubmatch(strings.ReplaceAll(line, noRoom, ""), -1) {
		if !ordinary.MatchString(state[1]) {
			w.finding("%s: no fault explains SQLSTATE %s: %s", m.name, state[1], line)
		}
	}
	switch {
	case said.Level == "ERROR" && !(explained && causes.MatchString(line)):
		w.finding("%s: no fault explains: %s", m.name, line)
	case explained:
		w.count(blamed, said.Level+" "+said.Msg)
	default:
		w.count(warned, said.Msg)
	}
}

// finding is something that must be looked into.
func (w *torture) finding(format string, args ...any) {
	w.Helper()
	w.printf("FINDING: %s", strings.TrimSpace(fmt.Sprintf(format, args...)))
	w.Errorf(format, args...)
}
