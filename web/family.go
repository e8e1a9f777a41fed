package web

import (
	"slices"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const (
	deepest = 6 // what a tree indents; deeper Runs stand there too, and name their source
	many    = 8 // of one source's retries that nothing came of but themselves: from here on only the first and last are seen
	firstOf = 2
	lastOf  = 3
)

// branch is a Run of a family at its place in the tree.
type branch struct {
	run.Member
	level int      // how far it is indented
	lines []string // from the left
}

// family lays a retry family out as a tree, each retry below its source.
func (s *server) family(list []run.Member, current uuid.UUID, nowMS int64) templates.Family {
	f := templates.Family{Sentence: familySentence(list)}
	if len(list) < 2 {
		return f
	}
	tree := branches(list)
	for i := 0; i < len(tree); {
		n := plainRetries(tree[i:], current)
		if n <= many {
			n = 0
		}
		for j := range max(n, 1) {
			if n == 0 || j < firstOf || j >= n-lastOf {
				f.Members = append(f.Members, s.member(tree[i+j], current, nowMS))
			} else if j == firstOf {
				f.Members = append(f.Members, s.folded(tree[i+j:i+n-lastOf], current, nowMS))
			}
		}
		i += max(n, 1)
	}
	if len(list) >= run.MaxFamily {
		f.More = text.Of("Only the first %s Runs of this family are shown.", run.MaxFamily)
	}
	return f
}

// plainRetries is how many Runs, from the first of tree on, are retries of one source, were not retried, and are not current.
func plainRetries(tree []branch, current uuid.UUID) (n int) {
	for n < len(tree) && tree[n].level > 0 && tree[n].ID != current && *tree[n].RetryOf == *tree[0].RetryOf && (n+1 == len(tree) || tree[n+1].RetryOf == nil || *tree[n+1].RetryOf != tree[n].ID) {
		n++
	}
	return n
}

// branches puts each Run after its source and says how the lines of the tree run before it.
func branches(list []run.Member) []branch {
	children := map[uuid.UUID][]run.Member{}
	for _, m := range list {
		if m.RetryOf != nil {
			children[*m.RetryOf] = append(children[*m.RetryOf], m)
		}
	}
	var tree []branch
	var add func(m run.Member)
	add = func(m run.Member) {
		tree = append(tree, branch{Member: m, level: min(m.Depth, deepest)})
		for _, child := range children[m.ID] {
			add(child)
		}
	}
	if len(list) > 0 {
		add(list[0])
	}
	var below [deepest + 1]bool // whether a line at that level goes on downwards
	for i, b := range slices.Backward(tree) {
		tree[i].lines = linesBefore(b.level, below)
		below[b.level] = true
		clear(below[b.level+1:])
	}
	return tree
}

func linesBefore(level int, below [deepest + 1]bool) []string {
	var lines []string
	for l := 1; l <= level; l++ {
		switch {
		case l == level && below[l]:
			lines = append(lines, "tee")
		case l == level:
			lines = append(lines, "ell")
		case below[l]:
			lines = append(lines, "pass")
		default:
			lines = append(lines, "none")
		}
	}
	return lines
}

func (s *server) member(b branch, current uuid.UUID, nowMS int64) templates.Member {
	m := b.Member
	row := templates.Member{ID: shortID(m.ID, s.links.run(m.ID)), Status: runStatuses[m.Status], Lines: b.lines, Created: instant(m.CreatedAtMS, nowMS), Current: m.ID == current}
	if m.By != nil {
		row.By = text.Of("by %s", shorten(visible(*m.By), listName))
	}
	if m.Reason != nil {
		row.Reason = shorten(visible(*m.Reason), listText)
	}
	if m.Depth > deepest {
		row.Of = shortID(*m.RetryOf, s.links.run(*m.RetryOf))
	}
	return row
}

// folded is several Runs behind one line.
func (s *server) folded(tree []branch, current uuid.UUID, nowMS int64) templates.Member {
	lines := slices.Clone(tree[0].lines)
	lines[len(lines)-1] = "pass"
	row := templates.Member{Lines: lines, Fold: text.Of("%s more: %s", len(tree), endsOf(members(tree)))}
	for _, b := range tree {
		b.lines = nil
		row.Folded = append(row.Folded, s.member(b, current, nowMS))
	}
	return row
}

func members(tree []branch) []run.Member {
	var list []run.Member
	for _, b := range tree {
		list = append(list, b.Member)
	}
	return list
}

// familySentence says what became of the retries.
func familySentence(list []run.Member) templates.Sentence {
	if len(list) < 2 {
		return templates.Sentence{Lead: text.Of("Not retried."), Rest: text.Of("It is no retry of another Run either.")}
	}
	return templates.Sentence{Lead: text.Count(len(list)-1, "1 retry:", "%s retries:"), Rest: text.Of("%s.", endsOf(list[1:]))}
}

// endsOf counts Runs by status: 2 failed, 1 succeeded.
func endsOf(list []run.Member) text.Text {
	counts := map[run.Status]int{}
	var order []run.Status
	for _, m := range list {
		if counts[m.Status]++; counts[m.Status] == 1 {
			order = append(order, m.Status)
		}
	}
	var parts []text.Text
	for _, status := range order {
		parts = append(parts, text.Of("%s %s", counts[status], runStatuses[status].Word))
	}
	return text.Join(text.Of(", "), parts...)
}
