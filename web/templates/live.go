package templates

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/cespare/xxhash/v2"
)

// Fragments are the live parts of a page, by name, as they were rendered.
type Fragments map[string]Fragment

// A Fragment is one of them.
type Fragment struct {
	HTML string // only where it is asked for: a page's state is all that is needed of most
	hash uint64 // of what of it lasts
}

type recordingKey struct{}

type recording struct {
	parts Fragments
	html  bool
}

// Recording returns a context in which rendering a page notes its live parts in the Fragments returned beside it, with
// their HTML if that is wanted.
func Recording(ctx context.Context, html bool) (context.Context, Fragments) {
	r := recording{Fragments{}, html}
	return context.WithValue(ctx, recordingKey{}, r), r.parts
}

func (r recording) note(name string, html []byte) {
	f := Fragment{hash: hashOf(html)}
	if r.html {
		f.HTML = string(html)
	}
	r.parts[name] = f
}

// live is a part of a page that its stream keeps current. A name is in one page once.
func live(name string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		buf := templ.GetBuffer()
		defer templ.ReleaseBuffer(buf)
		buf.WriteString(`<div data-part="` + templ.EscapeString(name) + `">`)
		begin := buf.Len()
		if err := templ.GetChildren(ctx).Render(templ.ClearChildren(ctx), buf); err != nil {
			return err
		}
		if r, ok := ctx.Value(recordingKey{}).(recording); ok {
			r.note(name, buf.Bytes()[begin:])
		}
		buf.WriteString(`</div>`)
		_, err := w.Write(buf.Bytes())
		return err
	})
}

// relative is what grows older, or drains, by itself in the reader's browser, and so is no change: what is between each
// of the pairs.
var relative = [][2][]byte{{[]byte(`<span class="rel" data-ago="`), []byte(`</span>`)}, {[]byte(`<rect class="left"`), []byte(`>`)}}

func hashOf(html []byte) uint64 {
	hash := xxhash.New()
	writeLasting(hash, html, relative)
	return hash.Sum64()
}

// writeLasting writes html without what is between a pair.
func writeLasting(hash *xxhash.Digest, html []byte, pairs [][2][]byte) {
	if len(pairs) == 0 {
		hash.Write(html)
		return
	}
	for len(html) > 0 {
		lasting, rest, _ := bytes.Cut(html, pairs[0][0])
		writeLasting(hash, lasting, pairs[1:])
		_, html, _ = bytes.Cut(rest, pairs[0][1])
	}
}

// State names what f shows in one line, apart from how long ago it was: name=hash, in the order of the names. It is the
// id of a stream's event, and so what a reader that comes again has seen.
func (f Fragments) State() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		list = append(list, name+"="+strconv.FormatUint(f[name].hash, 36))
	}
	return strings.Join(list, ",")
}

// Since returns the names of f's parts that seen, an earlier [Fragments.State], does not have as they are now, and the
// state of now. Of a state that makes no sense, all are.
func (f Fragments) Since(seen string) (names []string, state string) {
	had := map[string]bool{}
	for part := range strings.SplitSeq(seen, ",") {
		had[part] = true
	}
	state = f.State()
	for part := range strings.SplitSeq(state, ",") {
		if name, _, ok := strings.Cut(part, "="); ok && !had[part] {
			names = append(names, name)
		}
	}
	return names, state
}

func stateOf(ctx context.Context) string {
	r, _ := ctx.Value(recordingKey{}).(recording)
	return r.parts.State()
}
