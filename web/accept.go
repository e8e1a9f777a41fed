package web

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// What an Accept header asks for, as RFC 9110 has it in section 12.5.1.

const (
	htmlType    = "text/html"
	jsonType    = "application/json"
	problemType = "application/problem+json"
	streamType  = "text/event-stream"
)

// A mediaRange is one element of an Accept header: a type, type/* or */*, and how much it is wanted, from 0 to 1.
type mediaRange struct {
	kind   string
	weight float64
}

// mostRanges is how many elements of a header are read; a browser sends eight.
const mostRanges = 64

// mediaRanges reads an Accept header. What is no media range is as if it were not there.
func mediaRanges(h http.Header) (list []mediaRange) {
	elements := unquotedParts(strings.Join(h.Values("Accept"), ","))
	for _, element := range elements[:min(len(elements), mostRanges)] {
		kind, parameters, err := mime.ParseMediaType(element)
		if err != nil || strings.Count(kind, "/") != 1 {
			continue
		}
		r := mediaRange{kind: kind, weight: 1}
		if q, ok := parameters["q"]; ok {
			if r.weight, err = strconv.ParseFloat(q, 64); err != nil || !(r.weight >= 0 && r.weight <= 1) {
				continue
			}
		}
		list = append(list, r)
	}
	return list
}

// unquotedParts takes s apart at its commas, but for those inside a quoted string.
func unquotedParts(s string) (parts []string) {
	quoted, escaped, from := false, false, 0
	for i := range len(s) {
		switch c := s[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			parts, from = append(parts, s[from:i]), i+1
		}
	}
	return append(parts, s[from:])
}

// How exactly a media range names a type.
const (
	notAtAll = iota
	asAnything
	asOneOfItsKind
	byName
)

func (r mediaRange) names(kind string) int {
	family, _, _ := strings.Cut(kind, "/")
	switch r.kind {
	case kind:
		return byName
	case family + "/*":
		return asOneOfItsKind
	case "*/*":
		return asAnything
	}
	return notAtAll
}

// weigh says how much a type is wanted, and how exactly it is named by the range that says so, which is the most exact.
func weigh(list []mediaRange, kind string) (weight float64, exact int) {
	for _, r := range list {
		switch n := r.names(kind); {
		case n > exact:
			weight, exact = r.weight, n
		case n == exact && n > notAtAll:
			weight = max(weight, r.weight)
		}
	}
	return weight, exact
}

// preferred is the one of offers that is wanted most; of several, the one that is named most exactly, and of those the
// first. Where none is wanted it is the first as well: an answer that nobody asked for is more use than none.
func preferred(list []mediaRange, offers ...string) string {
	best, most, exact := offers[0], 0.0, notAtAll
	for _, offer := range offers {
		weight, n := weigh(list, offer)
		if weight > most || weight == most && weight > 0 && n > exact {
			best, most, exact = offer, weight, n
		}
	}
	return best
}

// asksByName reports whether a header names a type, and wants it.
func asksByName(h http.Header, kind string) bool {
	weight, exact := weigh(mediaRanges(h), kind)
	return exact == byName && weight > 0
}
