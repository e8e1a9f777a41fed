//go:build walks

package e2e

import "testing"

func TestWalks(t *testing.T) {
	w := newWorld(t)
	t.Run("provider", func(t *testing.T) {
		s := w.own(t, "")
		p := w.browser(t).tab()
		p.open(s.url + "/livez")
		t.Log(p.glance(), p.asked())
		p.open(s.url + "/")
		t.Log(p.glance(), p.asked())
	})
	t.Run("forward", func(t *testing.T) {
		s := w.forward(t, "/ops/console")
		p := w.browser(t).tab()
		p.open(s.url + "/runs?status=failed")
		p.prove(w, "ada")
		t.Log(p.at(s.url+"/runs?status=failed"), p.asked())
	})
	t.Run("forward", func(t *testing.T) {
		s := w.authRequest(t, "/ops/console")
		p := w.browser(t).tab()
		p.open(s.url + "/runs?status=failed")
		p.prove(w, "gus")
		t.Log(p.at(s.url+"/runs?status=failed"), p.asked())
	})
}
