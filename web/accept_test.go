package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestPreferred(t *testing.T) {
	tests := []struct{ name, accept, want string }{
		{"nothing is asked for", "", htmlType},
		{"a browser", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", htmlType},
		{"anything", "*/*", htmlType},
		{"a client", "application/json", jsonType},
		{"in capitals", "Application/JSON", jsonType},
		{"an error's own type", "application/problem+json", problemType},
		{"a stream", "text/event-stream", streamType},
		{"JSON before anything", "application/json, text/plain, */*", jsonType},
		{"JSON before a page", "text/html;q=0.5, application/json", jsonType},
		{"a page before JSON", "application/json;q=0.5, text/html", htmlType},
		{"both alike", "application/json, text/html", htmlType},
		{"a page before a stream", "text/event-stream, text/html", htmlType},
		{"anything but a page", "*/*, text/html;q=0", jsonType},
		{"no JSON", "application/json;q=0", htmlType},
		{"no JSON, in spite of its kind", "application/json;q=0, application/*;q=0.5", problemType},
		{"a kind", "application/*", jsonType},
		{"a parameter", "application/json;charset=utf-8", jsonType},
		{"a comma in a parameter", `application/json;title="a, text/html";q=0.9, text/html;q=0.1`, jsonType},
		{"a weight that is none", "application/json;q=2, text/html;q=0.1", htmlType},
		{"no number", "application/json;q=NaN", htmlType},
		{"no media range", "json", htmlType},
		{"what there is not", "image/png", htmlType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := preferred(mediaRanges(http.Header{"Accept": {tt.accept}}), htmlType, jsonType, problemType, streamType); got != tt.want {
				t.Errorf("preferred(%q) = %s, want %s", tt.accept, got, tt.want)
			}
		})
	}
	if got := preferred(mediaRanges(http.Header{"Accept": {"text/html;q=0.1", "application/json"}}), htmlType, jsonType); got != jsonType {
		t.Errorf("preferred() of two lines = %s, want %s", got, jsonType)
	}
}

// What is chosen is wanted, and nothing that is wanted more is left.
func FuzzPreferred(f *testing.F) {
	for _, accept := range []string{"", "*/*", "text/html;q=0, */*", `a/b;c="d,e\"f";q=0.5, application/json`, ",,;q=1", "application/json;q=1e9", `"`} {
		f.Add(accept)
	}
	offers := []string{htmlType, jsonType, problemType, streamType}
	f.Fuzz(func(t *testing.T, accept string) {
		list := mediaRanges(http.Header{"Accept": {accept}})
		got := preferred(list, offers...)
		weight, _ := weigh(list, got)
		for _, offer := range offers {
			if other, _ := weigh(list, offer); other > weight || weight == 0 && got != offers[0] {
				t.Errorf("preferred(%q) = %s of weight %g, %s has %g", accept, got, weight, offer, other)
			}
		}
		if i := slices.IndexFunc(list, func(r mediaRange) bool { return !(r.weight >= 0 && r.weight <= 1) }); i >= 0 {
			t.Errorf("mediaRanges(%q) has the weight %g", accept, list[i].weight)
		}
	})
}

func TestOnlyTheFirstElementsAreRead(t *testing.T) {
	long := strings.Repeat("a/b,", 8000)
	if n := len(mediaRanges(http.Header{"Accept": {long}})); n != mostRanges {
		t.Errorf("%d media ranges of a header of 8,000, want %d", n, mostRanges)
	}
}
