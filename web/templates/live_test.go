package templates

import (
	"context"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"
)

// renderLive renders two live parts and returns the HTML and what was recorded.
func renderLive(t *testing.T, rows, ago string) (string, Fragments) {
	t.Helper()
	ctx, recorded := Recording(context.Background(), true)
	var b strings.Builder
	for name, body := range map[string]string{"rows": rows, "head": `as of <span class="rel" data-ago="` + ago + `">` + ago + ` s ago</span>`} {
		if err := live(name).Render(templ.WithChildren(ctx, templ.Raw(body)), &b); err != nil {
			t.Fatal(err)
		}
	}
	return b.String(), recorded
}

func TestLivePartsAreRecorded(t *testing.T) {
	html, recorded := renderLive(t, "<b>1</b>", "3")
	if recorded["rows"].HTML != "<b>1</b>" || !strings.Contains(html, `<div data-part="rows"><b>1</b></div>`) {
		t.Errorf("recorded %+v of %s", recorded, html)
	}
}

func TestSince(t *testing.T) {
	_, before := renderLive(t, "<b>1</b>", "3")
	_, older := renderLive(t, "<b>1</b>", "8")
	_, after := renderLive(t, "<b>2</b>", "9")
	tests := []struct {
		name  string
		state string
		now   Fragments
		want  []string
	}{
		{"nothing but time went on", before.State(), older, nil},
		{"one part changed", before.State(), after, []string{"rows"}},
		{"nothing is known", "", after, []string{"head", "rows"}},
		{"what is said to be known makes no sense", "rows=,=,,\x00", after, []string{"head", "rows"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names, state := tt.now.Since(tt.state)
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("Since(%q) (-want +got):\n%s", tt.state, diff)
			}
			if state != tt.now.State() {
				t.Errorf("Since(%q) says that the state is %q, want %q", tt.state, state, tt.now.State())
			}
		})
	}
}
