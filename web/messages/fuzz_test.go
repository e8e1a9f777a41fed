package messages

import (
	"slices"
	"testing"
)

// Whatever a browser asks for, it is answered in a language that there is, and in the one it chose.
func FuzzChoose(f *testing.F) {
	f.Add("", "zh-Hans;q=0.8, en;q=0.2")
	f.Add("zh-CN", "en")
	f.Add("tlh", "*;q=0")
	f.Add("", "zh-TW, de-u-co-phonebk-x-\x00, ;;q=1")
	f.Fuzz(func(t *testing.T, tag, accept string) {
		got := Choose(tag, accept)
		known := slices.ContainsFunc(All(), func(l Language) bool { return l.Tag == tag })
		if known && got.Tag != tag || !slices.ContainsFunc(All(), func(l Language) bool { return l.Tag == got.Tag }) {
			t.Errorf("Choose(%q, %q) = %q", tag, accept, got.Tag)
		}
	})
}
