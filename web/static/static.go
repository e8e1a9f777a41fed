// Package static holds the stylesheet, the script and the icon, each under a URL that carries a hash of its content.
//
// Such a URL names one content for ever, so it is cached for ever; a new build makes new URLs.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var files embed.FS

// Dir is the path, relative to the console's root, below which the assets are served.
const Dir = "static/"

// contentTypes are spelled here, because the mime package's answer depends on the machine's own tables.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

type asset struct {
	url         string
	contentType string
	plain, gzip []byte
}

// URL returns where the asset called name is served, relative to the console's root: "static/console.5e1c7a90d2.css".
// It panics if there is no such asset: whoever names one that is not there has a bug, found at the first page.
func URL(name string) string {
	a, ok := load().byName[name]
	if !ok {
		panic(fmt.Sprintf("static.URL(%q): no such asset", name))
	}
	return a.url
}

// Serve writes the asset at urlPath, as [URL] spells it, and reports false, having written nothing, if there is none.
func Serve(w http.ResponseWriter, r *http.Request, urlPath string) bool {
	a, ok := load().byURL[urlPath]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if AcceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = a.gzip
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.Write(body) // net/http leaves the body out of an answer to HEAD; an error means the client left
	return true
}

// AcceptsGzip tells whether an Accept-Encoding header allows gzip. "gzip;q=0" is a refusal.
func AcceptsGzip(accept string) bool {
	for coding := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight, _ := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		return strings.Trim(weight, "0.") != "" || weight == ""
	}
	return false
}

type index struct {
	byName, byURL map[string]asset
}

// load reads the embedded files once, at the first use: most commands serve nothing.
var load = sync.OnceValue(func() index {
	x := index{byName: map[string]asset{}, byURL: map[string]asset{}}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		panic(err) // embedded at build
	}
	for _, e := range entries {
		plain, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		a := newAsset(e.Name(), plain)
		x.byName[e.Name()], x.byURL[a.url] = a, a
	}
	return x
})

func newAsset(name string, plain []byte) asset {
	sum := sha256.Sum256(plain)
	ext := path.Ext(name)
	return asset{
		url:         Dir + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:])[:10] + ext,
		contentType: contentTypes[ext],
		plain:       plain,
		gzip:        compress(plain),
	}
}

func compress(plain []byte) []byte {
	var buf bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is a valid one
	zw.Write(plain)                                          // a bytes.Buffer does not fail
	zw.Close()
	return buf.Bytes()
}
