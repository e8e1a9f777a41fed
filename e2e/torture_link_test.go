//go:build torture

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A link is the toxiproxy between one replica, or whoever publishes, and the database.
type link struct {
	proxy   *toxiproxy.Proxy
	address string // which never changes
}

// newLink leads from a free port to upstream.
func newLink(t testing.TB, name, upstream string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	l.address = l.proxy.Listen
	t.Cleanup(l.proxy.Stop)
	return l
}

// cut breaks every connection and refuses new ones.
func (l *link) cut() error {
	l.proxy.Stop()
	return nil
}

// mend takes connections again. Its port may be somebody else's for a moment.
func (l *link) mend() error {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if err = l.proxy.Start(); err == nil {
			return nil
		}
	}
	return err
}

// A toxic changes what passes in one direction: upstream is what the replica says, downstream the answer.
type toxic struct{ kind, stream, attributes string }

// toxicsOf are the toxics of a fault.
func toxicsOf(s move) []toxic {
	latency := fmt.Sprintf(`"latency": %d, "jitter": %d`, 30+s.Dice%400, s.Dice%150)
	return map[string][]toxic{
		doLatency: {{"latency", "upstream", latency}, {"latency", "downstream", latency}},
		doDeaf:    {{"timeout", "upstream", `"timeout": 0`}},
		doMute:    {{"timeout", "downstream", `"timeout": 0`}},
		doDead:    {{"timeout", "upstream", `"timeout": 0`}, {"timeout", "downstream", `"timeout": 0`}},
	}[s.Do]
}

func (t toxic) name() string { return t.kind + "-" + t.stream }

func (l *link) poison(toxics []toxic) error {
	for _, t := range toxics {
		json := fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": {%s}}`, t.name(), t.kind, t.stream, t.attributes)
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(json)); err != nil {
			return err
		}
	}
	return nil
}

// cure takes the toxics away. Connections that were half open are closed by that.
func (l *link) cure(toxics []toxic) error {
	for _, t := range toxics {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), t.name()); err != nil {
			return err
		}
	}
	return nil
}

// suffer carries out a fault of the network.
func (l *link) suffer(s move) error {
	begin, end := l.cut, l.mend
	if toxics := toxicsOf(s); toxics != nil {
		begin, end = func() error { return l.poison(toxics) }, func() error { return l.cure(toxics) }
	}
	if err := begin(); err != nil {
		return err
	}
	<-time.After(s.For)
	return end()
}
