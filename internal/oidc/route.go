package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Route is where a user was going: a GET route that matched, by name, with its ids and its query. It is never a URL, so
// that nothing a browser sent can lead anywhere else. The zero Route is the first page.
type Route struct {
	Name  string            `json:"name"`
	IDs   map[string]string `json:"ids,omitempty"`
	Query url.Values        `json:"query,omitempty"`
}

const (
	maxRoute      = 8 << 10 // bytes, encoded
	maxRouteParts = 64
)

var routeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,99}$`)

// Check says why a route cannot be kept.
func (r Route) Check() error {
	if r.Name == "" && len(r.IDs) == 0 && len(r.Query) == 0 {
		return nil
	}
	if !routeName.MatchString(r.Name) {
		return errors.New("a route is named by a word, not by a path")
	}
	if len(r.IDs)+len(r.Query) > maxRouteParts {
		return fmt.Errorf("a route has at most %d ids and query parameters", maxRouteParts)
	}
	for name, id := range r.IDs {
		if !routeName.MatchString(name) || !storable(id) {
			return errors.New("a route's id is not text")
		}
	}
	for name, values := range r.Query {
		if !storable(name) || !storable(strings.Join(values, "")) {
			return errors.New("a route's query is not text")
		}
	}
	return nil
}

// storable is what jsonb can hold.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func (r Route) encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(r)
	if err == nil && len(encoded) > maxRoute {
		return nil, fmt.Errorf("a route has at most %d bytes", maxRoute)
	}
	return encoded, err
}

func decodeRoute(encoded []byte) (r Route, err error) {
	if err := json.Unmarshal(encoded, &r); err != nil {
		return Route{}, errors.New("a stored route cannot be read")
	}
	if err := r.Check(); err != nil {
		return Route{}, err
	}
	return r, nil
}
