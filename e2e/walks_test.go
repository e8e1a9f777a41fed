//go:build walks

package e2e

import (
	"testing"
)

// A walk is one way through the console, as somebody goes it in a browser. It says in its name what must be so.
type walk struct {
	name string
	walk func(*testing.T, *site)
}

// TestWalks goes every walk at every site it is about. A site lives while its walks are gone, one site at a time, because
// all have the same public host and port.
func TestWalks(t *testing.T) {
	w := newWorld(t)
	for _, m := range mounts {
		t.Run("own sign-in "+m.name, func(t *testing.T) { goAll(t, w.own(t, m.path), ownWalks, everywhereWalks) })
		t.Run("oauth2-proxy in front "+m.name, func(t *testing.T) { goAll(t, w.forward(t, m.path), proxyWalks, everywhereWalks) })
		t.Run("nginx asking oauth2-proxy "+m.name, func(t *testing.T) { goAll(t, w.authRequest(t, m.path), proxyWalks, everywhereWalks) })
	}
	t.Run("provider that fails", func(t *testing.T) { goAll(t, w.own(t, ""), failureWalks) })
	t.Run("development instance", func(t *testing.T) { walkDevelopment(t, w) })
	t.Run("live", func(t *testing.T) { goAll(t, w.own(t, ""), liveWalks, stillWalks, zoneWalks, handWalks) })
	t.Run("pages", func(t *testing.T) { walkPages(t, w) })
	t.Run("retry", func(t *testing.T) { walkRetry(t, w) })
}

func goAll(t *testing.T, s *site, lists ...[]walk) {
	for _, list := range lists {
		for _, x := range list {
			t.Run(x.name, func(t *testing.T) { x.walk(t, s) })
		}
	}
}

// mounts are where the console is: at the root of its host, and under a path.
var mounts = []struct{ name, path string }{{"at the root", ""}, {"under a path", "/ops/console"}}
