package run

import (
	"testing"

	"github.com/google/uuid"
)

// Publishing lets only https templates in; a page makes links only of https URLs whatever is stored.
func TestLinkIsHTTPSOrNothing(t *testing.T) {
	d := Detail{Summary: Summary{ID: uuid.MustParse("0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e"), ProjectID: "ops", TaskID: "report"},
		Attempts: []AttemptDetail{{ID: uuid.MustParse("0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1f")}}}
	tests := []struct{ template, want string }{
		{"https://wiki.example/{project}/{task}", "https://wiki.example/ops/report"},
		{"https://logs.example/?q={run}-{attempt}", "https://logs.example/?q=0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e-0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1f"},
		{"http://wiki.example/", ""},
		{"javascript:alert(1)", ""},
		{"//wiki.example/", ""},
		{"https:///nowhere", ""},
		{"https://user:password@wiki.example/", ""},
		{"https://wiki.example/%zz", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := d.link(&tt.template); got != tt.want {
			t.Errorf("link(%q) = %q, want %q", tt.template, got, tt.want)
		}
	}
	if got := d.link(nil); got != "" {
		t.Errorf("link(nil) = %q, want nothing", got)
	}
}
