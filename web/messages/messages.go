// Package messages holds what the console says, in every language it speaks.
//
// A message is known by what it is in English, as [text] has it: English is written where it is said, and every other
// language is one catalogue here. A message that a catalogue lacks, or has and nobody says, fails a test.
package messages

import (
	"context"

	"golang.org/x/text/language"

	"github.com/qinglong/console/internal/text"
)

// A Language is one that the console speaks.
type Language struct {
	Tag       string // BCP 47, as the lang attribute has it
	Name      string // in itself
	catalogue text.Catalogue
}

// languages in the order in which they are offered; the first is what is spoken when nothing else is asked for.
var languages = []Language{{Tag: "en", Name: "English"}, {Tag: "zh-CN", Name: "简体中文", catalogue: chinese}}

var matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// All are the languages that the console speaks.
func All() []Language { return languages }

// Say says x in l.
func (l Language) Say(x text.Text) string { return x.In(l.catalogue) }

// Choose is the language called tag, if there is one, and otherwise what fits an Accept-Language header (RFC 9110, section
// 12.5.4) best.
func Choose(tag, accept string) Language {
	for _, l := range languages {
		if l.Tag == tag {
			return l
		}
	}
	_, i := language.MatchStrings(matcher, accept)
	return languages[i]
}

type key struct{}

// In returns a context whose reader reads l.
func In(ctx context.Context, l Language) context.Context { return context.WithValue(ctx, key{}, l) }

// From is the language of ctx's reader: English, if nobody said.
func From(ctx context.Context) Language {
	l, ok := ctx.Value(key{}).(Language)
	if !ok {
		return languages[0]
	}
	return l
}
