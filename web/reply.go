package web

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"
)

// A reply is what a read found, in every medium in which it may be asked for. Only the one that is asked for is made.
type reply struct {
	status int // of the page, unless it is as it should be
	json   func() any
	page   func() templ.Component
	rows   func(context.Context) iter.Seq2[[]string, error] // of a list: every row of it, whatever the page shows; the first names the columns
}

// A reading reads what an address names, for whoever asks. It may be asked again for the same request.
type readingFunc func(echo.Context) (reply, error)

// A medium is one of those in which a reply is written.
type medium int

const (
	asHTML medium = iota
	asJSON
	asCSV
	asStream // the page's live parts, whenever they have changed
)

// mediumOf is the one that a request asks for: by its address, or by its Accept header.
func (s *server) mediumOf(c echo.Context) medium {
	r, path := s.routeOf(c), c.Request().URL.Path
	if r.csv {
		return asCSV
	}
	wanted := preferred(mediaRanges(c.Request().Header), htmlType, jsonType, problemType, streamType)
	switch {
	case r.live && c.Request().Method == http.MethodGet && wanted == streamType:
		return asStream // whatever its name ends in
	case r.json || strings.HasSuffix(path, ".json") && c.Get(nameKey) == nil, wanted == jsonType, wanted == problemType:
		return asJSON
	}
	return asHTML
}

// nameKey is set on a request whose address ends in .json because what it names does.
const nameKey = "the name ends in .json"

// wantsJSON tells whether the address or the client asks for JSON.
func (s *server) wantsJSON(c echo.Context) bool { return s.mediumOf(c) == asJSON }

// answer makes read a handler.
func (s *server) answer(read readingFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.mediumOf(c) == asStream {
			return s.stream(c, read)
		}
		found, err := read(c)
		if err != nil {
			return err
		}
		switch s.mediumOf(c) {
		case asJSON:
			return writeJSON(c, http.StatusOK, jsonType, found.json())
		case asCSV:
			return writeCSV(c, found.rows(c.Request().Context()))
		}
		return writeHTML(c, cmp.Or(found.status, http.StatusOK), found.page())
	}
}

// nonNil makes an empty list [] in JSON.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
