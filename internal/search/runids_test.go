package search

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
)

func TestParseRunIDs(t *testing.T) {
	tests := []struct{ name, text, first, last string }{
		{"whole", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e"},
		{"without dashes", "0199f3c25d0e7c119a420b8f2c6e7a1e", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e"},
		{"eight digits", "0199f3c2", "0199f3c2-0000-0000-0000-000000000000", "0199f3c2-ffff-ffff-ffff-ffffffffffff"},
		{"up to a dash", "0199f3c2-", "0199f3c2-0000-0000-0000-000000000000", "0199f3c2-ffff-ffff-ffff-ffffffffffff"},
		{"an odd number", "0199f3c2-5", "0199f3c2-5000-0000-0000-000000000000", "0199f3c2-5fff-ffff-ffff-ffffffffffff"},
		{"seven digits", "0199f3c", "", ""},
		{"a dash in the wrong place", "0199f3c-25", "", ""},
		{"one dash of two", "0199f3c2-5d0e7c11", "", ""},
		{"not hexadecimal", "0199f3cg", "", ""},
		{"too long", "0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e0", "", ""},
		{"dashes alone", "--------", "", ""},
		{"nothing", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, last := "", ""
			if ids := parseRunIDs(tt.text); ids != nil {
				first, last = ids.First.String(), ids.Last.String()
			}
			if first != tt.first || last != tt.last {
				t.Errorf("parseRunIDs(%q) = %q to %q, want %q to %q", tt.text, first, last, tt.first, tt.last)
			}
		})
	}
}

// Whatever is read is the range of the ids that begin with it.
func FuzzParseRunIDs(f *testing.F) {
	for _, text := range []string{"0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "0199f3c2", "0199f3c2-5", "--------", "0199f3c-25", "ａａａａａａａａ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := parseRunIDs(strings.ToLower(text))
		if ids == nil {
			return
		}
		prefix := strings.ReplaceAll(strings.ToLower(text), "-", "")
		for _, id := range []uuid.UUID{ids.First, ids.Last} {
			if !strings.HasPrefix(strings.ReplaceAll(id.String(), "-", ""), prefix) {
				t.Errorf("parseRunIDs(%q) = %s, which does not begin with it", text, id)
			}
		}
		if bytes.Compare(ids.First[:], ids.Last[:]) > 0 {
			t.Errorf("parseRunIDs(%q) = %s to %s", text, ids.First, ids.Last)
		}
	})
}

// However long the text and whatever is in it, what is compared is short, is text, and is the same when it is typed again.
func FuzzNormal(f *testing.F) {
	for _, text := range []string{"", "  Nightly Report ", "İstanbul", strings.Repeat("Ⱥ", 150), strings.Repeat("发", 200), "\xff", "a\x00b", strings.Repeat(" ", 500) + "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := normal(text)
		if len(got) > maxText || utf8.ValidString(text) && !utf8.ValidString(got) || got != strings.TrimSpace(got) {
			t.Errorf("normal(%q) = %q, of %d bytes", text, got, len(got))
		}
		if again := normal(got); again != got {
			t.Errorf("normal(%q) = %q, and typed again %q", text, got, again)
		}
	})
}
