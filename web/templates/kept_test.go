package templates

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/messages"
)

// What is kept is rendered once for all who are shown the same, and never shown to somebody else.
func TestKept(t *testing.T) {
	chinese := messages.In(t.Context(), messages.All()[1])
	operator := RunRow{Pick: Pick{Value: "1", For: "retry"}}
	waiting, chosen := operator, operator
	waiting.Pick.Waits, chosen.Pick.Checked = true, true
	stopping := operator
	stopping.Pick.For = "stop"
	var k Kept
	rendered := map[string]int{}
	readers := []struct {
		name string
		ctx  context.Context
		rows []RunRow
	}{
		{"a viewer", t.Context(), []RunRow{{}, {}}},
		{"a viewer who reads Chinese", chinese, []RunRow{{}, {}}},
		{"an operator", t.Context(), []RunRow{operator, {}}},
		{"an operator of the other Project", t.Context(), []RunRow{{}, operator}},
		{"an operator whose Run waits", t.Context(), []RunRow{waiting, {}}},
		{"an operator who has chosen", t.Context(), []RunRow{chosen, {}}},
		{"an operator who may stop it", t.Context(), []RunRow{stopping, {}}},
	}
	for range 3 {
		for _, r := range readers {
			c := templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
				rendered[r.name]++
				_, err := io.WriteString(w, r.name)
				return err
			})
			var b strings.Builder
			ctx, now := Recording(templ.WithChildren(r.ctx, c), true)
			if err := k.live("rows", picked(r.rows)).Render(ctx, &b); err != nil || b.String() != `<div data-part="rows">`+r.name+`</div>` || now["rows"] != (Fragment{r.name, hashOf([]byte(r.name))}) {
				t.Errorf("%s is shown %q, %v, and told %+v", r.name, b.String(), err, now)
			}
		}
	}
	for _, r := range readers {
		if rendered[r.name] != 1 {
			t.Errorf("for %s it was rendered %d times", r.name, rendered[r.name])
		}
	}
	var none *Kept
	var b strings.Builder
	if err := none.live("rows", "").Render(templ.WithChildren(t.Context(), status(Status{Word: text.Of("failed")})), &b); err != nil || !strings.Contains(b.String(), "failed") {
		t.Errorf("where nothing is kept: %q, %v", b.String(), err)
	}
}

// A rendering that panics is not taken for one without rows by the next who is shown it.
func TestKeptAfterAPanic(t *testing.T) {
	var k Kept
	render := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = errors.New("panic")
			}
		}()
		broken := templ.ComponentFunc(func(context.Context, io.Writer) error { panic("broken") })
		return k.live("rows", "").Render(templ.WithChildren(t.Context(), broken), io.Discard)
	}
	for i := range 2 {
		if render() == nil {
			t.Errorf("reader %d is shown what was not rendered", i+1)
		}
	}
}
