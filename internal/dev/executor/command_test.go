package executor

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLastLine(t *testing.T) {
	vars := map[string]string{"A": "sesame", "B": "sesame and open", "C": "abc", "D": "first line\nsecond line\n", "E": "  padded  "}
	filler := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"blanks", "\n \n\t\n", ""},
		{"the last line that is not blank", "one\ntwo\n\n  \n", "two"},
		{"no newline at the end", "one\ntwo", "two"},
		{"carriage returns", "one\r\ntwo\r\n", "two"},
		{"a value", "say sesame!", "say [redacted]!"},
		{"a value twice", "sesame sesame", "[redacted] [redacted]"},
		{"a value within another: the longer goes first", "say sesame and open", "say [redacted]"},
		{"a value too short to be a secret", "abc", "abc"},
		{"a line of a value of several lines", "it says second line here", "it says [redacted] here"},
		{"a value padded with blanks, at the end", "it is   padded", "it is   [redacted]"},
		{"control characters", "\x1b[31mred\x1b[0m\x00\x07 end", "[31mred [0m   end"},
		{"what turns the direction of text", "a\u202eb\u2066c\u200fd", "a b c d"},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"as long as may be", filler(summaryLimit), filler(summaryLimit)},
		{"one longer", filler(summaryLimit + 1), filler(summaryLimit-1) + "…"},
		{"ten thousand", filler(10_000), filler(summaryLimit-1) + "…"},
		{"ten thousand wide ones", strings.Repeat("漢", 10_000), "\uFFFD" + strings.Repeat("漢", summaryLimit-2) + "…"},
		{"cut inside a value", "a sesame" + filler(stderrKept-4), redacted + filler(summaryLimit-1-len(redacted)) + "…"},
		{"cut inside the longer value", "sesame and open" + filler(stderrKept-11), redacted + filler(summaryLimit-1-len(redacted)) + "…"},
		{"cut in front of a value", "a sesame" + filler(stderrKept-6), redacted + filler(summaryLimit-1-len(redacted)) + "…"},
		{"cut in an earlier line", "a sesame" + filler(stderrKept-10) + "\nsame", "same"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, chunk := range []int{1, 7, len(tt.stderr) + 1} {
				stderr := &tail{most: stderrKept}
				for rest := tt.stderr; rest != ""; {
					n := min(chunk, len(rest))
					stderr.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				if got := stderr.lastLine(vars); got != tt.want {
					t.Errorf("lastLine(%.40q in writes of %d) = %.60q, want %.60q", tt.stderr, chunk, got, tt.want)
				}
			}
		})
	}
}

func TestLastLineNeverShowsAValue(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("xyz")), 1, 8, -1) // none of those in the word that replaces
	rapid.Check(t, func(t *rapid.T) {
		vars := rapid.MapOfN(letters, letters, 0, 4).Draw(t, "vars")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("xyz \n\x00\u202e漢")), 0, 60, -1).Draw(t, "text")
		stderr := &tail{most: rapid.IntRange(1, 40).Draw(t, "most")}
		stderr.Write([]byte(text))
		got := stderr.lastLine(vars)
		for _, value := range vars {
			if len(value) >= shortValue && strings.Contains(got, value) {
				t.Errorf("lastLine(%q) = %q, which shows %q", text, got, value)
			}
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("lastLine(%q) = %q, not fit to show", text, got)
		}
	})
}
