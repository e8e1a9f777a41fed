package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestLongListsAreFoldedInTheMiddle(t *testing.T) {
	numbers := func(n int) (list []int) {
		for i := range n {
			list = append(list, i)
		}
		return list
	}
	for n, want := range map[int]string{0: "[] [] []", rowsSeen: fmt.Sprint(numbers(rowsSeen)) + " [] []", 30: "[0 1 2 3 4 5] [6 7 8 9 10 11 12 13 14 15 16 17] [18 19 20 21 22 23 24 25 26 27 28 29]"} {
		f := foldMiddle(numbers(n))
		if diff := cmp.Diff(want, fmt.Sprint(f.First, f.Middle, f.Last)); diff != "" {
			t.Errorf("foldMiddle of %d (-want +got):\n%s", n, diff)
		}
	}
}

// A name of ten thousand characters stands on its Run's page whole, and neither as its head nor before everything else.
func TestNameOfAnyLength(t *testing.T) {
	w := newWorld(t)
	name := "<b>" + strings.Repeat("名", 9_990) + "end"
	pgtest.Force(t, w.Super(t), `UPDATE ql3.runs SET task_name = $1`, name)
	body := get(t, w.handler(t, ""), "/runs/"+w.failed.String()).body
	if n := strings.Count(body, strings.Repeat("名", 9_990)+"end"); n != 1 || !strings.Contains(body, `<details class="fold"><summary>the whole name</summary>`) {
		t.Errorf("the page has the whole name %d times, want once, folded", n)
	}
	head, _, _ := strings.Cut(body[strings.Index(body, "<h1>"):], "</h1>")
	if n := strings.Count(head, "名"); n == 0 || n > headName {
		t.Errorf("the head has %d characters of the name, want %d at most", n, headName)
	}
}
