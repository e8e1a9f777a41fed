package idp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	httphelper "github.com/zitadel/oidc/v3/pkg/http"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Config is what a Provider needs. Only HTTP may be left out.
type Config struct {
	Issuer  string // such as http://localhost:8081: a loopback name or address, no path; passkeys need the name localhost
	Dir     string // keys and accounts are kept here, readable by their owner alone
	Clients []Client
	HTTP    *http.Client // delivers logout tokens; nil: a client that gives up after 3 s
	Log     *slog.Logger
}

// A Provider is the development OpenID provider. It serves its issuer's whole origin.
type Provider struct {
	issuer   *url.URL
	lib      library
	store    *store
	passkeys *webauthn.WebAuthn // nil when the issuer is an address, which a passkey cannot be bound to
	http     *http.Client
	log      *slog.Logger
}

const (
	logoutPatience = 3 * time.Second
	bodyLimit      = 64 << 10
)

// New reads the keys and accounts in cfg.Dir, or makes them.
func New(cfg Config) (*Provider, error) {
	issuer, err := parseIssuer(cfg.Issuer)
	if err != nil {
		return nil, err
	}
	store, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	lib, err := newLibrary(cfg.Issuer, store)
	if err != nil {
		return nil, err
	}
	p := &Provider{issuer: issuer, lib: lib, store: store, log: cfg.Log, http: cmp.Or(cfg.HTTP, &http.Client{Timeout: logoutPatience})}
	store.tell = p.tell
	if net.ParseIP(issuer.Hostname()) == nil {
		p.passkeys, err = newPasskeys(issuer)
	}
	return p, err
}

// parseIssuer refuses whatever other machines could reach: everybody here can read the passwords.
func parseIssuer(issuer string) (*url.URL, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Scheme != "http" || u.Host == "" || issuer != "http://"+u.Host:
		return nil, fmt.Errorf("the issuer %q is not of the form http://localhost:8081", issuer)
	case u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("the issuer %q is not on loopback; a development provider is only for this machine", issuer)
	}
	return u, nil
}

func newStore(cfg Config) (*store, error) {
	state, key, err := openState(cfg.Dir)
	if err != nil {
		return nil, err
	}
	id, err := thumbprint(key)
	if err != nil {
		return nil, err
	}
	s := &store{key: key, keyID: id, state: state, clients: map[string]client{}, requests: map[string]*request{},
		codes: map[string]issued{}, tokens: map[string]issued{}, sessions: map[string]*session{}}
	for _, c := range cfg.Clients {
		s.clients[c.ID] = client{c}
	}
	return s, nil
}

// Accounts returns who may sign in, passwords and all.
func (p *Provider) Accounts() []Account {
	var accounts []Account
	for _, a := range p.store.state.Accounts {
		accounts = append(accounts, a.Account)
	}
	return accounts
}

// Handler serves the provider. A request for another host is answered 421, so that a page of another site, whose name
// was made to lead here, reads nothing.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { op.Keys(w, r, p.store) })
	mux.HandleFunc("/authorize", p.authorize)
	mux.HandleFunc("GET /authorize/callback", func(w http.ResponseWriter, r *http.Request) { op.AuthorizeCallback(w, r, p.lib) })
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) { op.Exchange(w, r, p.lib) })
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, r *http.Request) { op.Userinfo(w, r, p.lib) })
	mux.HandleFunc("/end_session", p.endSession)

	mux.HandleFunc("GET /login", p.showLogin)
	mux.Handle("POST /login", form(p.password))
	mux.Handle("POST /login/code", form(p.code))
	mux.Handle("POST /login/passkey/options", form(p.passkeyOptions))
	mux.Handle("POST /login/passkey", form(p.passkey))
	mux.Handle("POST /login/enough", form(p.enough))
	mux.Handle("POST /login/other", form(p.other))
	mux.Handle("POST /login/cancel", form(p.cancel))

	mux.HandleFunc("GET /{$}", p.showAccount)
	mux.HandleFunc("GET /code.png", p.codeImage)
	mux.Handle("POST /passkeys/options", form(p.newPasskeyOptions))
	mux.Handle("POST /passkeys", form(p.newPasskey))
	mux.Handle("POST /sign-out", form(p.signOut))
	mux.HandleFunc("GET /signed-out", p.signedOut)
	mux.HandleFunc("GET /style.css", asset("style.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /icon.svg", asset("icon.svg", "image/svg+xml"))
	mux.HandleFunc("GET /passkey.js", asset("passkey.js", "text/javascript; charset=utf-8"))
	return p.guard(mux)
}

// form takes a POST from this provider's own pages only.
func form(h http.HandlerFunc) http.Handler { return http.NewCrossOriginProtection().Handler(h) }

func (p *Provider) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != p.issuer.Host {
			http.Error(w, "This is "+p.issuer.String()+" and nothing else.", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy(""))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
		next.ServeHTTP(w, r.WithContext(op.ContextWithIssuer(r.Context(), p.issuer.String())))
	})
}

// authorize hands the library a request together with what it does not look at itself.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
		return
	}
	v := visit{cookie: p.cookie(r), claims: r.FormValue("claims")}
	op.Authorize(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)), p.lib)
}

// discovery says what is really offered; the library would list what it could do.
func (p *Provider) discovery(w http.ResponseWriter, r *http.Request) {
	d := op.CreateDiscoveryConfig(r.Context(), p.lib, p.store)
	d.IntrospectionEndpoint, d.RevocationEndpoint, d.DeviceAuthorizationEndpoint = "", "", ""
	d.IntrospectionEndpointAuthMethodsSupported, d.RevocationEndpointAuthMethodsSupported = nil, nil
	d.IntrospectionEndpointAuthSigningAlgValuesSupported, d.RevocationEndpointAuthSigningAlgValuesSupported = nil, nil
	d.ResponseTypesSupported, d.ResponseModesSupported = []string{"code"}, []string{"query"}
	d.GrantTypesSupported = []oidc.GrantType{oidc.GrantTypeCode}
	d.ACRValuesSupported = []string{ACRHardware, ACRMultiFactor, ACRSingleFactor}
	d.ClaimsParameterSupported = true
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		*oidc.DiscoveryConfiguration
		IssInResponse bool     `json:"authorization_response_iss_parameter_supported"`
		Prompts       []string `json:"prompt_values_supported"`
	}{d, true, []string{oidc.PromptNone, oidc.PromptLogin, oidc.PromptSelectAccount}})
}

// A library is the library's provider with what this one needs otherwise.
type library struct {
	*op.Provider
	issuer string
}

func newLibrary(issuer string, s *store) (library, error) {
	config := &op.Config{AuthMethodPost: true, CodeMethodS256: true, DefaultLogoutRedirectURI: "/signed-out",
		SupportedScopes:            []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail},
		SupportedClaims:            strings.Fields("iss sub aud exp iat auth_time nonce acr amr azp at_hash sid name preferred_username email email_verified"),
		BackChannelLogoutSupported: true, BackChannelLogoutSessionSupported: true}
	rand.Read(config.CryptoKey[:]) // codes and access tokens end with the process
	p, err := op.NewProvider(config, s, op.StaticIssuer(issuer), op.WithAllowInsecure())
	return library{p, issuer}, err
}

// GrantTypeJWTAuthorizationSupported is no: nobody here has registered a key.
func (l library) GrantTypeJWTAuthorizationSupported() bool { return false }

// Encoder adds iss to every authorization answer, as RFC 9207 wants it.
func (l library) Encoder() httphelper.Encoder { return answerEncoder{l.Provider.Encoder(), l.issuer} }

type answerEncoder struct {
	httphelper.Encoder
	issuer string
}

func (e answerEncoder) Encode(answer any, values map[string][]string) error {
	values["iss"] = []string{e.issuer}
	return e.Encoder.Encode(answer, values)
}

// fail answers a request that cannot go on: people see what to do, and the log what happened.
func (p *Provider) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errGone) {
		p.show(w, http.StatusGone, page{Title: "Start again", Name: "note",
			Text: "This sign-in has ended or is too old. Go back to the application and start again there."})
		return
	}
	p.log.ErrorContext(r.Context(), "identity provider request failed", "route", r.Pattern, "err", err)
	p.show(w, http.StatusInternalServerError, page{Title: "Something went wrong", Name: "note",
		Text: "The development provider's log says what."})
}
