//go:build walks

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// development is what a script reads of a running console dev.
type development struct {
	URL, Issuer string
	Databases   map[string]string
	Accounts    []account
}

type account struct{ Role, Username, Name, Subject, Password, TOTPSecret string }

func startDevelopment(t *testing.T) (d development) {
	t.Helper()
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	dir := shared(t)
	if err := os.Chmod(dir, 0o755); err != nil { // the database server's user must pass through
		t.Fatal(err)
	}
	p := start(t, command(program, map[string]string{"CONSOLE_POSTGRES_BIN": os.Getenv("CONSOLE_POSTGRES_BIN"), "HOME": dir}, "dev", "--state-dir", filepath.Join(dir, "state")))
	t.Cleanup(func() {
		p.Cmd.Process.Signal(os.Interrupt) // so that it stops its database server too
		<-p.Done
	})
	p.until(t, "sign in as")
	content, err := os.ReadFile(filepath.Join(dir, "state", "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// prove signs in as one of the accounts at the development provider, whose form the tab shows.
func (d development) prove(p *tab, username string) {
	p.Helper()
	p.below(d.Issuer + "/")
	for _, a := range d.Accounts {
		if a.Username == username {
			p.do(chromedp.WaitVisible("#password"), chromedp.SetValue("#username", username), chromedp.SendKeys("#password", a.Password+kb.Enter))
			return
		}
	}
	p.Fatalf("there is no account %s", username)
}

func walkDevelopment(t *testing.T, w *world) {
	d := startDevelopment(t)
	there := d.URL + "/runs?status=failed"
	come := func(p *tab, username string) view {
		p.Helper()
		p.open(there)
		p.at(d.URL + "/auth/sign-in")
		p.press(signInButton)
		d.prove(p, username)
		return p.at(there)
	}
	for _, username := range []string{"viewer", "operator", "admin", "owner"} {
		t.Run("the account "+username+" signs in from a deep link and has its role", func(t *testing.T) {
			p := w.browser(t).tab()
			come(p, username)
			p.sees("Development instance")
			p.open(d.URL + "/account")
			p.sees("sample", username)
		})
	}
	t.Run("signing out, also at the provider, makes it ask again", func(t *testing.T) {
		p := w.browser(t).tab()
		come(p, "operator")
		p.press(signOutButton)
		p.sees("You are signed out")
		p.press(`a[href^="` + d.Issuer + `"]`)
		p.until("the end of the sign-out", func(v view) bool {
			return v.URL == d.URL+"/auth/signed-out" || v.has("sign out") && strings.HasPrefix(v.URL, d.Issuer)
		})
		p.open(there)
		p.press(signInButton)
		p.below(d.Issuer + "/")
		p.do(chromedp.WaitVisible("#password"))
	})
	t.Run("it works without JavaScript", func(t *testing.T) {
		p := w.browser(t).tab()
		p.withoutScript()
		come(p, "viewer")
	})
	t.Run("its cookies carry the port", func(t *testing.T) {
		p := w.browser(t).tab()
		come(p, "viewer")
		port := d.URL[strings.LastIndex(d.URL, ":")+1:]
		if p.cookies(d.URL + "/")["ql3_session_"+port] == nil {
			t.Errorf("there is no ql3_session_%s among %v", port, p.cookies(d.URL+"/"))
		}
	})
}
