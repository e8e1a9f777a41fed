package static

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var names = []string{"console.css", "console.js", "favicon.svg"}

func TestURLCarriesTheContentsHash(t *testing.T) {
	for _, name := range names {
		plain, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(plain)
		if got, want := URL(name), hex.EncodeToString(sum[:])[:10]; !strings.Contains(got, want) {
			t.Errorf("URL(%q) = %q, want it to contain %q", name, got, want)
		}
	}
}

func TestURLPanicsForAnUnknownName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error(`URL("missing.css") returned, want a panic`)
		}
	}()
	URL("missing.css")
}

func TestServe(t *testing.T) {
	types := map[string]string{
		"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8", "favicon.svg": "image/svg+xml",
	}
	for _, name := range names {
		plain, _ := files.ReadFile("assets/" + name)
		for _, encoding := range []string{"", "gzip"} {
			res := get(URL(name), encoding)
			if got := res.Header.Get("Content-Type"); got != types[name] {
				t.Errorf("Serve(%s) Content-Type = %q, want %q", name, got, types[name])
			}
			if got := res.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
				t.Errorf("Serve(%s) Cache-Control = %q, want immutable", name, got)
			}
			if got := res.Header.Get("Content-Encoding"); got != encoding {
				t.Errorf("Serve(%s) with %q: Content-Encoding = %q", name, encoding, got)
			}
			if body(t, res) != string(plain) {
				t.Errorf("Serve(%s) with %q: the body is not the file", name, encoding)
			}
		}
	}
}

func TestServeOnlyWhatURLNames(t *testing.T) {
	for _, p := range []string{"static/console.css", "static/console.0000000000.css", "static/../static.go", "", "static/"} {
		w := httptest.NewRecorder()
		if Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), p) || w.Body.Len() > 0 {
			t.Errorf("Serve(%q) = true, want false and nothing written", p)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	tests := []struct {
		accept string
		want   bool
	}{
		{"", false}, {"br", false}, {"gzip", true}, {"br, GZIP", true}, {"gzip;q=0", false}, {"gzip; q=0.000", false},
		{"gzip;q=0.5", true}, {"gzip;q=1", true}, {"x-gzip", false},
	}
	for _, tt := range tests {
		if got := AcceptsGzip(tt.accept); got != tt.want {
			t.Errorf("AcceptsGzip(%q) = %t, want %t", tt.accept, got, tt.want)
		}
	}
}

// Both fit, with the largest page, in the 60 KB that a first view may take.
func TestAssetsAreSmall(t *testing.T) {
	for _, name := range names {
		if got := len(load().byName[name].gzip); got > 10_000 {
			t.Errorf("%s is %d bytes compressed, want at most 10000", name, got)
		}
	}
}

func get(urlPath, encoding string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	Serve(w, r, urlPath)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	var r io.Reader = res.Body
	if res.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if r, err = gzip.NewReader(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
