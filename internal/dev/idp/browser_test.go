package idp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"
)

const patience = 20 * time.Second

// A desk is a real browser before a real provider, and a client program on another port.
type desk struct {
	*testing.T
	p       *Provider
	config  oauth2.Config
	tab     context.Context
	answers chan url.Values
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, answers: make(chan url.Values, 1)}
	rp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			d.answers <- r.URL.Query()
		}
	}))
	t.Cleanup(rp.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	issuer := "http://localhost:" + port
	d.config = oauth2.Config{ClientID: "console", RedirectURL: rp.URL + "/callback", Scopes: []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: issuer + "/authorize", TokenURL: issuer + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams}}
	d.p, err = New(Config{Issuer: issuer, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Clients: []Client{{ID: "console", RedirectURIs: []string{d.config.RedirectURL}}}})
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: d.p.Handler()}}
	server.Start()
	t.Cleanup(server.Close)
	d.tab = openTab(t)
	return d
}

// openTab skips at a desk without Chromium and fails in CI. What the browser's console says is an error: a page that
// its own policy forbids something says so there.
func openTab(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no chromium on this machine")
	} else if err != nil {
		t.Fatal("CI has no chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err = chromedp.Listen(ctx, func(event any) {
		// A refused form and a missing icon are answers, not faults.
		if e, ok := event.(*cdplog.EventEntryAdded); ok && e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			t.Errorf("the browser says: %s", e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

// A step is one thing a person does at the browser.
type step = chromedp.Action[chromedp.Void]

func (d *desk) do(steps ...step) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.tab, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		text, _ := chromedp.Run(d.tab, chromedp.Text("body"))
		d.Fatalf("browser: %v; it shows\n%s", err, text)
	}
}

// signIn sends the browser to the provider, does the steps and returns what the client learns.
func (d *desk) signIn(more url.Values, steps ...step) claims {
	d.Helper()
	verifier := oauth2.GenerateVerifier()
	u := d.config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", "n")) + "&" + more.Encode()
	d.do(append([]step{chromedp.Navigate(u)}, steps...)...)
	var answer url.Values
	select {
	case answer = <-d.answers:
	case <-time.After(patience):
		d.Fatal("the browser did not come back to the client")
	}
	ctx := oidc.ClientContext(d.Context(), http.DefaultClient)
	token, err := d.config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		d.Fatalf("exchange %v: %v", answer, err)
	}
	c, _ := verified(ctx, d, d.p.issuer.String(), token, "console", "n")
	return c
}

// typed signs in with the keyboard alone: the password field has the focus, the account is before it.
func (d *desk) typed(name string) []step {
	return []step{
		chromedp.WaitVisible("#password"),
		chromedp.SetValue("#username", name),
		chromedp.SendKeys("#password", d.p.store.state.find(name).Password+kb.Enter),
	}
}

func TestBrowserWithoutScript(t *testing.T) {
	d := newDesk(t)
	if _, err := chromedp.Call(d.tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	got := d.signIn(nil, d.typed("operator")...)
	if got.Subject != "dev-operator" || strings.Join(got.AMR, " ") != "pwd" {
		t.Errorf("ID token: %+v", got)
	}
}

// plugIn gives the browser a security key that is touched at once whenever it asks, until the test ends.
func (d *desk) plugIn(t *testing.T, key webauthn.VirtualAuthenticatorOptions) {
	t.Helper()
	key.Protocol, key.Transport = webauthn.AuthenticatorProtocolCtap2, webauthn.AuthenticatorTransportUsb
	key.HasResidentKey, key.AutomaticPresenceSimulation = true, true
	if _, err := chromedp.Call(d.tab, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	in, err := chromedp.Call(d.tab, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		chromedp.Call(d.tab, webauthn.RemoveVirtualAuthenticator, webauthn.RemoveVirtualAuthenticatorParams(in))
	})
}

func TestPasskey(t *testing.T) {
	d := newDesk(t)
	touch := chromedp.Click(".passkey button", chromedp.NodeVisible)
	tests := []struct {
		name     string
		account  string
		key      webauthn.VirtualAuthenticatorOptions
		ask      url.Values
		password bool // is asked for, because the passkey alone is not enough
		amr      []string
		acr      string
	}{
		{"a key that verifies its user", "operator", webauthn.VirtualAuthenticatorOptions{HasUserVerification: true, IsUserVerified: true},
			essential(ACRHardware), false, []string{"hwk", "user", "mfa"}, ACRHardware},
		{"a key that is only touched", "admin", webauthn.VirtualAuthenticatorOptions{},
			essential(ACRHardware), true, []string{"pwd", "hwk", "user", "mfa"}, ACRHardware},
		{"a passkey that can be copied", "owner", webauthn.VirtualAuthenticatorOptions{HasUserVerification: true, IsUserVerified: true, DefaultBackupEligibility: true, DefaultBackupState: true},
			essential(ACRMultiFactor), false, []string{"swk", "user", "mfa"}, ACRMultiFactor},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d.plugIn(t, test.key)
			d.signIn(url.Values{"prompt": {"login"}}, d.typed(test.account)...)
			d.do(chromedp.Navigate(d.p.issuer.String()), touch, chromedp.WaitVisible(`//p[text()="One."]`))

			test.ask.Set("prompt", "login")
			test.ask.Set("login_hint", test.account)
			steps := []step{touch}
			if test.password {
				steps = append(steps, chromedp.WaitVisible(`//p[contains(text(), "Give the password first")]`))
				steps = append(append(steps, d.typed(test.account)...), chromedp.WaitVisible(`//h1[text()="Second factor"]`), touch)
			}
			got := d.signIn(test.ask, steps...)
			if diff := cmp.Diff(test.amr, got.AMR); diff != "" || got.ACR != test.acr {
				t.Errorf("acr = %q, want %q; amr (-want +got):\n%s", got.ACR, test.acr, diff)
			}
		})
	}
}
