package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/web/templates"
)

// kin is the Run number n of a family, a retry of number of.
func kin(n, of, depth int, status run.Status) run.Member {
	m := run.Member{ID: number(n), Depth: depth, Status: status}
	if depth > 0 {
		m.RetryOf = new(number(of))
	}
	return m
}

func number(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("%08d-0000-7000-8000-000000000000", n))
}

var treeSigns = map[string]string{"pass": "│ ", "tee": "├ ", "ell": "└ ", "none": "  "}

// sketch draws a tree in text.
func sketch(list []templates.Member) (rows []string) {
	for _, m := range list {
		row := ""
		for _, l := range m.Lines {
			row += treeSigns[l]
		}
		if len(m.Folded) > 0 {
			rows = append(rows, row+"("+m.Fold.String()+")")
			continue
		}
		row += strings.TrimLeft(m.ID.Whole[:8], "0")
		if m.Of.Whole != "" {
			row += " of " + strings.TrimLeft(m.Of.Whole[:8], "0")
		}
		if m.Current {
			row += " *"
		}
		rows = append(rows, row)
	}
	return rows
}

func TestFamilyIsATree(t *testing.T) {
	branching := []run.Member{kin(1, 0, 0, run.Failed), kin(2, 1, 1, run.Failed), kin(3, 1, 1, run.Succeeded), kin(4, 2, 2, run.Failed), kin(5, 2, 2, run.Running), kin(6, 4, 3, run.Queued)}
	wide := []run.Member{kin(1, 0, 0, run.Failed)}
	for n := range 12 {
		wide = append(wide, kin(n+2, 1, 1, run.Failed))
	}
	deep := []run.Member{kin(1, 0, 0, run.Failed)}
	for n := range 8 {
		deep = append(deep, kin(n+2, n+1, n+1, run.Failed))
	}
	tests := []struct {
		name    string
		family  []run.Member
		current int
		says    string
		want    []string
	}{
		{"alone", branching[:1], 1, "Not retried. It is no retry of another Run either.", nil},
		{"one retry", branching[:2], 2, "1 retry: 1 failed.", []string{"1", "└ 2 *"}},
		{"branches", branching, 4, "5 retries: 2 failed, 1 succeeded, 1 running, 1 queued.", []string{"1", "├ 2", "│ ├ 4 *", "│ │ └ 6", "│ └ 5", "└ 3"}},
		{"wide", wide, 1, "12 retries: 12 failed.", []string{"1 *", "├ 2", "├ 3", "│ (7 more: 7 failed)", "├ 11", "├ 12", "└ 13"}},
		{"the current one is never folded", wide, 6, "12 retries: 12 failed.", []string{"1", "├ 2", "├ 3", "├ 4", "├ 5", "├ 6 *", "├ 7", "├ 8", "├ 9", "├ 10", "├ 11", "├ 12", "└ 13"}},
		{"deep", deep, 9, "8 retries: 8 failed.", []string{"1", "└ 2", "  └ 3", "    └ 4", "      └ 5", "        └ 6", "          ├ 7", "          ├ 8 of 7", "          └ 9 of 8 *"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := (&server{}).family(tt.family, number(tt.current), 0)
			if got := f.Sentence.Lead.String() + " " + f.Sentence.Rest.String(); got != tt.says {
				t.Errorf("the family says %q, want %q", got, tt.says)
			}
			if diff := cmp.Diff(tt.want, sketch(f.Members)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}
