package templates

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/a-h/templ"

	"github.com/qinglong/console/web/messages"
)

// Kept keeps what has been rendered of a live part that several readers are shown, once for each way in which they are. A
// nil *Kept keeps nothing.
type Kept struct {
	mu    sync.Mutex
	parts map[keptAs]*keptPart
}

// keptAs is how a reader is shown what all are shown.
type keptAs struct {
	language string
	marks    string // what of it is the reader's own
}

type keptPart struct {
	once sync.Once
	html []byte
	part Fragment
	err  error
}

var errUnrendered = errors.New("another reader's rendering of it failed")

// live is [live] for a part that all whose marks are these are shown alike. It is rendered for the first of them.
func (k *Kept) live(name, marks string) templ.Component {
	if k == nil {
		return live(name)
	}
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		p := k.part(keptAs{messages.From(ctx).Tag, marks})
		p.once.Do(func() {
			p.err = errUnrendered // if it panics, the others are shown no list without rows
			p.err = p.render(ctx, name)
		})
		if p.err != nil {
			return p.err
		}
		if r, ok := ctx.Value(recordingKey{}).(recording); ok {
			r.parts[name] = p.part
		}
		_, err := w.Write(p.html)
		return err
	})
}

func (p *keptPart) render(ctx context.Context, name string) error {
	buf := templ.GetBuffer()
	defer templ.ReleaseBuffer(buf)
	ctx, parts := Recording(ctx, true)
	err := live(name).Render(ctx, buf)
	p.html, p.part = bytes.Clone(buf.Bytes()), parts[name]
	return err
}

func (k *Kept) part(as keptAs) *keptPart {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.parts[as]
	if p == nil {
		if k.parts == nil {
			k.parts = map[keptAs]*keptPart{}
		}
		p = &keptPart{}
		k.parts[as] = p
	}
	return p
}
