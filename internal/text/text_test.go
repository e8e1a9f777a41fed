package text

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIn(t *testing.T) {
	chinese := Catalogue{"Next %s.": "下一次：%s。", "in %s": "%s后", "%s min": "%s 分钟", "%s of %s": "%[2]s 中的 %[1]s", "1 Run": "1 个运行",
		"%s Runs": "%s 个运行", "Stopped": "已停止", ", ": "、"}
	tests := []struct {
		name    string
		text    Text
		english string
		chinese string
	}{
		{"nothing", Text{}, "", ""},
		{"a message", Of("Stopped"), "Stopped", "已停止"},
		{"one that the catalogue lacks", Of("Lost"), "Lost", "Lost"},
		{"texts within texts", Of("Next %s.", Of("in %s", Of("%s min", 4))), "Next in 4 min.", "下一次：4 分钟后。"},
		{"another order", Of("%s of %s", 3, 4000), "3 of 4,000", "4,000 中的 3"},
		{"one", Count(1, "1 Run", "%s Runs"), "1 Run", "1 个运行"},
		{"many", Count(12345, "1 Run", "%s Runs"), "12,345 Runs", "12,345 个运行"},
		{"data is no message", Data("Stopped"), "Stopped", "Stopped"},
		{"data has no verbs", Data("100%s"), "100%s", "100%s"},
		{"a list leaves out what says nothing", Join(Of(", "), Of("Stopped"), Text{}, Data("x")), "Stopped, x", "已停止、x"},
		{"a list of nothing", Join(Of(", "), Text{}), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.text.String(); got != tt.english {
				t.Errorf("String() = %q, want %q", got, tt.english)
			}
			if got := tt.text.In(chinese); got != tt.chinese {
				t.Errorf("In(chinese) = %q, want %q", got, tt.chinese)
			}
			if tt.text.Empty() != (tt.english == "") {
				t.Errorf("Empty() = %v", tt.text.Empty())
			}
		})
	}
}

func TestMap(t *testing.T) {
	said := Of("%s of %s: %s, %s, %s", "a", 1234, Of("by %s", "b"), Data("c"), fmt.Errorf("d"))
	if got, want := said.Map(strings.ToUpper).String(), "A of 1,234: by B, C, D"; got != want {
		t.Errorf("Map(ToUpper) = %q, want %q", got, want)
	}
	if got := said.String(); got != "a of 1,234: by b, c, d" {
		t.Errorf("after Map the Text itself says %q", got)
	}
}

func TestDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", -999: "-999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Digits(n); got != want {
			t.Errorf("Digits(%d) = %s, want %s", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		if got := strings.ReplaceAll(Digits(n), ",", ""); got != fmt.Sprint(n) {
			t.Fatalf("Digits(%d) without commas = %s", n, got)
		}
	})
}

// A message is filled as fmt fills it, whatever its words are.
func TestPlacesAreFilledAsFmtFillsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"%s", " of ", "，", "s", "100"}), 0, 8).Draw(t, "message")
		message := strings.Join(parts, "")
		var args, words []any
		for range strings.Count(message, "%s") {
			word := rapid.String().Draw(t, "word")
			args, words = append(args, word), append(words, word)
		}
		if got, want := Of(message, args...).String(), fmt.Sprintf(message, words...); got != want {
			t.Fatalf("Of(%q, %q) = %q, want %q", message, args, got, want)
		}
	})
}
