package idp

import (
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		accounts, key := w.p.Accounts(), w.p.store.keyID
		info, err := os.Stat(filepath.Join(w.dir, "idp.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("idp.json: %v, %v; want mode 0600", info, err)
		}
		first := w.ask(nil)
		first.signIn("owner")
		_, token := first.tokens()

		w.start()
		if diff := cmp.Diff(accounts, w.p.Accounts()); diff != "" {
			t.Errorf("accounts after a restart (-before +after):\n%s", diff)
		}
		if w.p.store.keyID != key {
			t.Errorf("key %q after a restart, want %q", w.p.store.keyID, key)
		}
		again := w.ask(url.Values{"id_token_hint": {token}}) // signed with the key of before
		if !strings.Contains(again.page, `value="owner" selected`) {
			t.Errorf("after a restart, hinted by a token of before, the browser shows\n%s", again.page)
		}
		again.signIn("owner")
		again.redeem()
	})
}

func TestAccounts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		passwords := map[string]bool{}
		var roles []string
		for _, a := range w.p.Accounts() {
			passwords[a.Password] = true
			roles = append(roles, a.Role)
			if a.Subject != "dev-"+a.Username || len(a.Password) != 16 || len(a.TOTPSecret) != 32 {
				t.Errorf("account %+v", a)
			}
		}
		if diff := cmp.Diff([]string{"viewer", "operator", "admin", "owner", ""}, roles); diff != "" || len(passwords) != len(roles) {
			t.Errorf("%d different passwords; roles (-want +got):\n%s", len(passwords), diff)
		}
	})
}

func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "idp.json")
	tests := []struct{ name, content, want string }{
		{"no JSON", `{"signingKey":`, "is damaged; remove it"},
		{"no key", `{"signingKey":"AAAA"}`, "the signing key in"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := New(Config{Issuer: issuer, Dir: dir}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New() = %v, want %q", err, test.want)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.content {
				t.Errorf("the file is now %q, %v; want it as it was", got, err)
			}
		})
	}
}

func TestOnlyLoopback(t *testing.T) {
	tests := map[string]bool{
		"http://localhost:8081": true, "http://127.0.0.1:8081": true, "http://[::1]:8081": true,
		"http://192.168.1.5:8081": false, "http://idp.example": false, "https://localhost:8081": false, "http://localhost:8081/": false,
		"http://localhost:8081/idp": false, "http://localhost.example:8081": false, "": false, "http://user@localhost:1": false,
	}
	for issuer, want := range tests {
		if _, err := parseIssuer(issuer); (err == nil) != want {
			t.Errorf("parseIssuer(%q) = %v, want success %t", issuer, err, want)
		}
	}
}

func TestDoors(t *testing.T) {
	p, err := New(Config{Issuer: issuer, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method, url string
		header            map[string]string
		want              int
	}{
		{"another host", "GET", "http://evil.example:8081/", nil, http.StatusMisdirectedRequest},
		{"another port", "GET", "http://localhost:80/", nil, http.StatusMisdirectedRequest},
		{"a form of another site", "POST", issuer + "/login", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		{"a form of another port", "POST", issuer + "/sign-out", map[string]string{"Origin": rpOrigin}, http.StatusForbidden},
		{"a sign-in that is not there", "GET", issuer + "/login?id=x", nil, http.StatusGone},
		{"somebody's secret, signed out", "GET", issuer + "/code.png", nil, http.StatusNotFound},
		{"a passkey, signed out", "POST", issuer + "/passkeys", nil, http.StatusGone},
		{"what the library could do", "POST", issuer + "/oauth/introspect", nil, http.StatusNotFound},
		{"the account page, signed out", "GET", issuer + "/", nil, http.StatusOK},
		{"another method", "DELETE", issuer + "/authorize", nil, http.StatusMethodNotAllowed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.url, nil)
			for k, v := range test.header {
				r.Header.Set(k, v)
			}
			rec := httptest.NewRecorder()
			p.Handler().ServeHTTP(rec, r)
			if rec.Code != test.want {
				t.Errorf("%s %s = %d, want %d\n%s", test.method, test.url, rec.Code, test.want, rec.Body)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		answer, err := w.browser.Get(w.ask(nil).at.String())
		if err != nil {
			t.Fatal(err)
		}
		want := "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
			"form-action 'self' http://localhost:9000; base-uri 'none'; frame-ancestors 'none'"
		if got := answer.Header.Get("Content-Security-Policy"); got != want {
			t.Errorf("Content-Security-Policy = %q, want %q", got, want)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": ""} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
}

func TestAccountPage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(nil)
		try.signIn("operator")
		answer, err := w.browser.Get(issuer + "/")
		try.see(answer, err)
		for _, want := range []string{w.account("operator").TOTPSecret, "dev-operator", ACRSingleFactor, "Add a passkey"} {
			if !strings.Contains(try.page, want) {
				t.Errorf("the account page lacks %q:\n%s", want, try.page)
			}
		}
		answer, err = w.browser.Get(issuer + "/code.png")
		if err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(answer.Body); err != nil || image.Bounds().Dx() != qrPixels {
			t.Errorf("/code.png: %v", err)
		}
	})
}

func TestDiscovery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		answer, err := w.browser.Get(issuer + "/.well-known/openid-configuration")
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"authorization_response_iss_parameter_supported":true`, `"response_types_supported":["code"]`,
			`"grant_types_supported":["authorization_code"]`, `"code_challenge_methods_supported":["S256"]`, `"backchannel_logout_session_supported":true`,
			`"acr_values_supported":["` + ACRHardware + `","` + ACRMultiFactor + `","` + ACRSingleFactor + `"]`, `"claims_parameter_supported":true`,
			`"end_session_endpoint":"` + issuer + `/end_session"`} {
			if !strings.Contains(string(content), want) {
				t.Errorf("discovery lacks %s", want)
			}
		}
		for _, no := range []string{"introspection", "revocation", "device", "implicit"} {
			if strings.Contains(string(content), no) {
				t.Errorf("discovery offers %s:\n%s", no, content)
			}
		}
	})
}
