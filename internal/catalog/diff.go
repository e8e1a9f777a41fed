package catalog

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a Change does.
const (
	Added   = "+"
	Changed = "~"
)

// A ProjectChange is what publishing a manifest changes in one Project.
type ProjectChange struct {
	Project string
	Changes []Change // none: the Project is as the manifest says
}

// A Change is one definition that is new or gets a new revision.
type Change struct {
	Verb     string // Added or Changed
	Kind     string // project, task or trigger
	ID       string
	Revision int64    // the revision it gets; 0 for a Project
	Details  []Detail // what differs, for Changed
	At       Position // zero for a Trigger that the manifest omits and its Task takes along
}

// A Detail is one field that differs. From and To are ready to be shown: text
// is quoted, and of an environment variable only a secret reference is told.
type Detail struct {
	Field    string
	From, To string
}

// Empty reports whether there is nothing to publish.
func (c ProjectChange) Empty() bool { return len(c.Changes) == 0 }

// New reports whether the Project was not there before.
func (c ProjectChange) New() bool {
	return slices.ContainsFunc(c.Changes, func(change Change) bool { return change.Kind == "project" && change.Verb == Added })
}

// WriteTo writes the change for a reader, a line for each difference.
func (c ProjectChange) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	if c.Empty() {
		fmt.Fprintf(&b, "project %s: unchanged\n", c.Project)
	} else {
		fmt.Fprintf(&b, "project %s:\n", c.Project)
	}
	for _, change := range c.Changes {
		change.write(&b)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (c Change) write(b *strings.Builder) {
	if len(c.Details) == 0 {
		fmt.Fprintf(b, "  %s %s %s\n", c.Verb, c.Kind, c.ID)
	}
	for _, d := range c.Details {
		fmt.Fprintf(b, "  %s %s %s: %s %s → %s\n", c.Verb, c.Kind, c.ID, d.Field, d.From, d.To)
	}
}

// compareText appends a difference of text, quoted.
func compareText(ds []Detail, field, from, to string) []Detail {
	return compareWord(ds, field, quoteText(from), quoteText(to))
}

// compareWord appends a difference of words that need no quotes.
func compareWord(ds []Detail, field, from, to string) []Detail {
	if from == to {
		return ds
	}
	return append(ds, Detail{Field: field, From: from, To: to})
}

func quoteText(s string) string {
	if s == "" {
		return "none"
	}
	return strconv.Quote(s)
}

func quoteList(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, " ") + "]"
}

// compareTasks tells how a Task differs from its stored content.
func compareTasks(stored string, to TaskContent) []Detail {
	from, err := ParseTask(stored)
	if err != nil {
		return []Detail{{Field: "content", From: "of another version", To: "as written"}}
	}
	ds := compareText(nil, "name", from.Name, to.Name)
	ds = compareWord(ds, "enabled", strconv.FormatBool(from.Enabled), strconv.FormatBool(to.Enabled))
	ds = compareWord(ds, "command", quoteList(from.Command), quoteList(to.Command))
	ds = compareEnv(ds, from.Env, to.Env)
	ds = compareText(ds, "workingDirectory", from.WorkingDirectory, to.WorkingDirectory)
	ds = compareWord(ds, "timeout", milliseconds(from.TimeoutMs), milliseconds(to.TimeoutMs))
	ds = compareWord(ds, "placement.requires", quoteList(from.requires()), quoteList(to.requires()))
	ds = compareText(ds, "runbook", from.Runbook, to.Runbook)
	ds = compareText(ds, "logs", from.Logs, to.Logs)
	ds = compareWord(ds, "retry.safe", from.Retry.Safe, to.Retry.Safe)
	return compareText(ds, "retry.note", from.Retry.Note, to.Retry.Note)
}

func (c TaskContent) requires() []string {
	if c.Placement == nil {
		return nil
	}
	return c.Placement.Requires
}

func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// compareEnv tells which variables differ, and never a literal value.
func compareEnv(ds []Detail, from, to map[string]string) []Detail {
	names := map[string]bool{}
	for name := range from {
		names[name] = true
	}
	for name := range to {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, was := from[name]
		after, is := to[name]
		if was == is && before == after {
			continue
		}
		d := Detail{Field: "env " + name, From: describeValue(before, was), To: describeValue(after, is)}
		if d.From == d.To {
			d.To = "another value"
		}
		ds = append(ds, d)
	}
	return ds
}

func describeValue(value string, set bool) string {
	switch {
	case !set:
		return "none"
	case IsReference(value):
		return value
	}
	return "a value"
}

// compareTriggers tells how a Trigger differs from its stored content.
func compareTriggers(stored string, to TriggerContent) []Detail {
	from, err := ParseTrigger(stored)
	if err != nil {
		return []Detail{{Field: "content", From: "of another version", To: "as written"}}
	}
	ds := compareText(nil, "cron", from.Written, to.Written)
	ds = compareWord(ds, "timezone", from.Timezone, to.Timezone)
	ds = compareWord(ds, "misfire", from.Misfire, to.Misfire)
	ds = compareWord(ds, "enabled", strconv.FormatBool(from.Enabled), strconv.FormatBool(to.Enabled))
	if from.Task.ID != to.Task.ID {
		return compareWord(ds, "task", from.Task.ID, to.Task.ID)
	}
	return compareWord(ds, "task revision", strconv.FormatInt(from.Task.Revision, 10), strconv.FormatInt(to.Task.Revision, 10))
}
