package templates

import (
	"slices"
	"strings"
	"testing"
)

// Whatever state a reader brings, it is sent at least what it lacks, and in the state of now there is nothing to send.
func FuzzSince(f *testing.F) {
	part := func(html string) Fragment { return Fragment{html, hashOf([]byte(html))} }
	now := Fragments{"rows": part("<p>a</p>"), "chips": part("<p>b</p>"), "health": part("")}
	for _, seen := range []string{"", now.State(), "rows=", "rows=\t;,=", "rows,chips,health", Fragments{"rows": part("<p>a</p>")}.State(), now.State() + ",rows=x"} {
		f.Add(seen)
	}
	f.Fuzz(func(t *testing.T, seen string) {
		names, state := now.Since(seen)
		for _, name := range names {
			if _, ok := now[name]; !ok {
				t.Errorf("Since(%q) names %q, which the page has not", seen, name)
			}
		}
		for name := range now {
			one := Fragments{name: now[name]}.State()
			if has := slices.Contains(strings.Split(seen, ","), one); has == slices.Contains(names, name) {
				t.Errorf("Since(%q) sends %q: %t, and it was seen: %t", seen, name, !has, has)
			}
		}
		if left, _ := now.Since(state); len(left) != 0 {
			t.Errorf("Since() of the state that Since(%q) returned sends %q", seen, left)
		}
	})
}
