package templates

import (
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
type Fragments map[string]string

type fragmentsKey struct{}

// Recording returns a context in which rendering a page notes its live parts in the Fragments returned beside it.
func Recording(ctx context.Context) (context.Context, Fragments) {
	f := Fragments{}
	return context.WithValue(ctx, fragmentsKey{}, f), f
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
		if f, ok := ctx.Value(fragmentsKey{}).(Fragments); ok {
			f[name] = string(buf.Bytes()[begin:])
		}
		buf.WriteString(`</div>`)
		_, err := w.Write(buf.Bytes())
		return err
	})
}

// relative is what grows older, or drains, by itself in the reader's browser, and so is no change: what is between each
// of the pairs.
var relative = [][2]string{{`<span class="rel" data-ago="`, `</span>`}, {`<rect class="left"`, `>`}}

// State names what f shows in one line, apart from how long ago it was: name=hash, in the order of the names. It is the
// id of a stream's event, and so what a reader that comes again has seen.
func (f Fragments) State() string {
	var list []string
	hash := xxhash.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		hash.Reset()
		writeLasting(hash, f[name], relative)
		list = append(list, name+"="+strconv.FormatUint(hash.Sum64(), 36))
	}
	return strings.Join(list, ",")
}

// writeLasting writes html without what is between a pair.
func writeLasting(hash *xxhash.Digest, html string, pairs [][2]string) {
	if len(pairs) == 0 {
		hash.WriteString(html)
		return
	}
	for html != "" {
		lasting, rest, _ := strings.Cut(html, pairs[0][0])
		writeLasting(hash, lasting, pairs[1:])
		_, html, _ = strings.Cut(rest, pairs[0][1])
	}
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
	f, _ := ctx.Value(fragmentsKey{}).(Fragments)
	return f.State()
}
