package web

import (
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/dev/idp"
	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/process"
)

// A town is a console on a port of its own, with an identity provider that people really sign in at.
type town struct {
	world
	config  Config
	public  string // the console's address
	origin  string
	issuer  string
	idp     *idp.Provider
	console *httptest.Server
	log     *process.Output
}

func newTown(t *testing.T, base string) *town {
	t.Helper()
	v := &town{world: newWorld(t), log: &process.Output{}}
	v.console, v.origin = listen(t, "https")
	v.public = v.origin + base
	provider, issuer := listen(t, "http")
	v.issuer = issuer
	v.config = configAt(t, v.Database, v.public, oidc.ProxyConfig{})
	v.config.Log = slog.New(slog.NewTextHandler(v.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	v.idp, err = idp.New(idp.Config{Issuer: issuer, Dir: t.TempDir(), Log: v.config.Log, HTTP: trustingClient(),
		Clients: []idp.Client{{ID: "console", Secret: "canary-client-secret", RedirectURIs: []string{v.public + CallbackPath, v.public + StepUpPath},
			PostLogoutURIs: []string{v.public + SignedOutPath}, BackChannelURI: v.public + BackChannelPath}}})
	if err != nil {
		t.Fatal(err)
	}
	provider.Config.Handler = v.idp.Handler()
	provider.Start()
	v.useProvider(t)
	v.console.Config.Handler = New(v.config)
	v.console.StartTLS()
	return v
}

// useProvider makes the console sign people in at the town's provider.
func (v *town) useProvider(t *testing.T) {
	t.Helper()
	i := v.config.Identity
	authn := v.Pool(t, "ql3_authn")
	i.Provider = oidc.NewProvider(oidc.ProviderConfig{Issuer: v.issuer, ClientID: "console", ClientSecret: "canary-client-secret", AllowHTTP: true}, v.config.Log)
	i.BackChannel = oidc.NewBackChannel(i.Provider, authn, v.config.Log)
	i.SignIn = oidc.NewSignIn(oidc.SignInConfig{Provider: i.Provider, Sessions: i.Sessions, Authn: authn, Log: v.config.Log, RedirectURL: v.public + CallbackPath})
	if err := i.Provider.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.config = managing(t, v.Database, v.config, oidc.StepUpIssuer{Provider: i.Provider, Requirement: oidc.Requirement{Issuer: v.issuer, SecondFactor: "always",
		Request: oidc.Request{ACRValues: []string{idp.ACRMultiFactor}}, Assurance: []oidc.Rule{{Claim: "acr", Equals: idp.ACRMultiFactor, Level: "multi_factor"}}}})
}

// listen takes a port of loopback for a server that is yet to be started.
func listen(t *testing.T, scheme string) (*httptest.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}}
	t.Cleanup(func() {
		if server.URL != "" {
			server.Close()
		}
	})
	return server, scheme + "://" + l.Addr().String()
}

// trustingClient takes the certificate of any test's server.
func trustingClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true
	return &http.Client{Transport: transport}
}

// A browser keeps cookies, follows redirects, and says of each request what browsers say.
type browser struct {
	*testing.T
	town   *town
	client *http.Client
	at     string // the address it shows
	status int
	page   string
	header http.Header
}

func (v *town) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{T: t, town: v, client: trustingClient()}
	b.client.Jar = jar
	return b
}

// open shows an address, below the console's if it is a path.
func (b *browser) open(address string) *browser {
	b.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.town.origin + address
	}
	return b.send(http.MethodGet, address, nil)
}

func (b *browser) send(method, address string, form url.Values) *browser {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	r.Header.Set("Sec-Fetch-Dest", "document")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.at, b.status, b.page, b.header = answer.Request.URL.String(), answer.StatusCode, string(body), answer.Header
	return b
}

// press sends the page's form that leads to path, with what is hidden in it and the fields.
func (b *browser) press(path string, fields ...string) *browser {
	b.Helper()
	_, form, ok := strings.Cut(b.page, `action="`+path+`"`)
	if !ok {
		b.Fatalf("the page at %s has no form for %s:\n%s", b.at, path, b.page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, m := range regexp.MustCompile(`name="([^"]+)" value="([^"]+)"`).FindAllStringSubmatch(form, -1) {
		values.Set(m[1], html.UnescapeString(m[2]))
	}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	there, err := url.Parse(b.at)
	if err != nil {
		b.Fatal(err)
	}
	return b.send(http.MethodPost, there.Scheme+"://"+there.Host+path, values)
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// goesOn is where the page goes on to by itself.
func (b *browser) goesOn() string {
	b.Helper()
	m := refresh.FindStringSubmatch(b.page)
	if m == nil || b.status != http.StatusOK {
		b.Fatalf("the page at %s (%d) does not go on by itself:\n%s", b.at, b.status, b.page)
	}
	return html.UnescapeString(m[1])
}

// signIn signs the account in, from the sign-in page that the browser shows.
func (b *browser) signIn(account string) *browser {
	b.Helper()
	b.press(b.town.path(signInPath))
	b.open(b.goesOn())
	for _, a := range b.town.idp.Accounts() {
		if a.Username == account && strings.HasPrefix(b.at, b.town.issuer) {
			b.press("/login", "username", account, "password", a.Password)
		}
	}
	if !strings.HasPrefix(b.at, b.town.public) {
		b.Fatalf("the browser is at %s after signing in:\n%s", b.at, b.page)
	}
	return b
}

// path is below the console's base path.
func (v *town) path(path string) string {
	u, _ := url.Parse(v.public + path)
	return u.Path
}

// cookies are what the browser would send to the console.
func (b *browser) cookies() []*http.Cookie {
	u, err := url.Parse(b.town.public + "/")
	if err != nil {
		b.Fatal(err)
	}
	return b.client.Jar.Cookies(u)
}

func (b *browser) shows(status int, texts ...string) {
	b.Helper()
	if b.status != status {
		b.Errorf("the browser shows %s with %d, want %d:\n%s", b.at, b.status, status, b.page)
	}
	for _, text := range texts {
		if !strings.Contains(b.page, text) {
			b.Errorf("the page at %s does not say %q", b.at, text)
		}
	}
}

// account is the person behind an account that has signed in.
func (v *town) account(t *testing.T, name string) person {
	t.Helper()
	for _, a := range v.idp.Accounts() {
		if a.Username == name {
			u, err := policy.FindUser(t.Context(), v.Super(t), v.issuer+" "+a.Subject)
			if err != nil {
				t.Fatal(err)
			}
			return person{subject: a.Subject, id: u.ID}
		}
	}
	t.Fatalf("there is no account %s", name)
	return person{}
}
