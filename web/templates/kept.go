package templates

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/a-h/templ"

	"github.com/qinglong/console/web/messages"
)

// Kept keeps what has been rendered of rows that several readers are shown, once for each way in which they are. A nil
// *Kept keeps nothing.
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
	err  error
}

var errUnrendered = errors.New("another reader's rendering of it failed")

// once is c, rendered when the first reader whose marks are these is shown it.
func (k *Kept) once(marks string, c templ.Component) templ.Component {
	if k == nil {
		return c
	}
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		p := k.part(keptAs{messages.From(ctx).Tag, marks})
		p.once.Do(func() {
			buf := templ.GetBuffer()
			defer templ.ReleaseBuffer(buf)
			p.err = errUnrendered // if it panics, the others are shown no list without rows
			p.err = c.Render(ctx, buf)
			p.html = append([]byte(nil), buf.Bytes()...)
		})
		if p.err != nil {
			return p.err
		}
		_, err := w.Write(p.html)
		return err
	})
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
