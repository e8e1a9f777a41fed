package web

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestDuration(t *testing.T) {
	tests := []struct {
		ms   int64
		want string
	}{
		{0, "0 ms"}, {8, "8 ms"}, {999, "999 ms"}, {1000, "1 s"}, {1049, "1 s"}, {1300, "1.3 s"}, {9_999, "9.9 s"}, {42_900, "42 s"},
		{60_000, "1 min"}, {72_100, "1 min 12 s"}, {3_600_000, "1 h"}, {41_220_000, "11 h 27 min"}, {86_400_000, "1 d"}, {273_600_000, "3 d 4 h"},
	}
	for _, tt := range tests {
		if got := duration(tt.ms).String(); got != tt.want {
			t.Errorf("duration(%d) = %q, want %q", tt.ms, got, tt.want)
		}
	}
}

func TestRelative(t *testing.T) {
	tests := []struct {
		ms   int64
		want string
	}{
		{0, "now"}, {999, "now"}, {-999, "now"}, {1500, "1 s ago"}, {-4_200, "in 4 s"}, {250_000, "4 min ago"}, {-41_250_000, "in 11 h 27 min"},
	}
	for _, tt := range tests {
		if got := relative(tt.ms).String(); got != tt.want {
			t.Errorf("relative(%d) = %q, want %q", tt.ms, got, tt.want)
		}
	}
}

func TestVisible(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain text stays", "Invoice export, 发票导出 ✓", "Invoice export, 发票导出 ✓"},
		{"an emoji stays whole", "👩‍🔧", "👩‍🔧"},
		{"controls are shown", "a\nb\tc\x00\x1b[31m\x7f", "a␊b␉c␀␛[31m␡"},
		{"bidirectional overrides are shown", "evil\u202egpj.exe\u2066", "evil�gpj.exe�"},
		{"zero width is shown", "a\u200bb\ufeff", "a�b�"},
		{"line separators are shown", "a\u2028b\u0085", "a�b�"},
		{"letters without ink are shown", "\u3164\u115f\u1160\uffa0\u2800a\u034f\u17b4", "�����a��"},
		{"a joiner with nothing to join is shown", "\u200d\ufe0f \u200da", "�️ �a"},
		{"a heart keeps its colour", "❤️", "❤️"},
		{"wide spaces stay", "夜间\u3000报表", "夜间\u3000报表"},
		{"what is no text is shown", "a\xffb", "a�b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := visible(tt.in); got != tt.want {
				t.Errorf("visible(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(1, 50).Draw(t, "n")
		got := shorten(s, n)
		if utf8.RuneCountInString(got) > n || got != s && !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
			t.Errorf("shorten(%q, %d) = %q", s, n, got)
		}
	})
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1284: "1,284", 10000: "10,000", 1234567: "1,234,567"} {
		if got := count(n, false); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	if got := count(10000, true); got != "10,000+" {
		t.Errorf("count(10000, capped) = %q", got)
	}
}

func TestMarkdown(t *testing.T) {
	if got, want := markdown("*a* [x](y) <b> @all\n# h"), `\*a\* \[x\]\(y\) \<b\> \@all␊\# h`; got != want {
		t.Errorf("markdown() = %q, want %q", got, want)
	}
}
