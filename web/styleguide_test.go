package web

import (
	"net/http"
	"strings"
	"testing"
)

// The styleguide is a development instance's alone: without its word there is no such address.
func TestStyleguideIsForDevelopment(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	if got := get(t, readerOf(t, w.Database, c), styleguidePath); got.StatusCode != http.StatusNotFound {
		t.Errorf("GET %s in production = %d, want 404", styleguidePath, got.StatusCode)
	}
	c.Styleguide = true
	got := get(t, readerOf(t, w.Database, c), styleguidePath)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("GET %s in development = %d, want 200", styleguidePath, got.StatusCode)
	}
	for status := range runStatuses {
		if word := runStatuses[status].Word.String(); !strings.Contains(got.body, word) {
			t.Errorf("the styleguide lacks the status %s", word)
		}
	}
}
