package run

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryStatusHasAWord(t *testing.T) {
	for _, s := range append(RunStatuses(), Claimed, Starting) {
		if s.Word().String() == "unknown" {
			t.Errorf("%s has no word", s)
		}
	}
	if got := Status("gone").Word().String(); got != "unknown" {
		t.Errorf("what is no state is called %q", got)
	}
}

// Every reason that the database gives is one that can be said in another language.
func TestNeedsAreTheReasonsOfTheDatabase(t *testing.T) {
	var given, known []string
	for _, m := range regexp.MustCompile(`(?:THEN|ELSE)\s+'([^']+)'`).FindAllStringSubmatch(attentionSQL, -1) {
		given = append(given, m[1])
	}
	for _, n := range needs {
		known = append(known, n.String())
	}
	if diff := cmp.Diff(given, known); diff != "" {
		t.Errorf("reasons of attentionSQL (-given +known):\n%s", diff)
	}
	if got := Need("something else").String(); got != "something else" {
		t.Errorf("Need of an unknown reason = %q, want it as it is", got)
	}
}
