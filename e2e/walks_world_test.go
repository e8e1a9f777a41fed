//go:build walks

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"html/template"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// deployed is where the configurations are that docs/sso.md tells of. The walks use those files themselves, with this
// machine's addresses in place of the documented ones.
const deployed = "../deploy/sso/"

// A person is an account at the independent provider. What one walk does to one must not be felt by another, so each
// walk that changes something has people of its own.
type person struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Groups   int    `json:"groups,omitempty"` // in every token of theirs
}

// world is what every walk shares: a database, an independent provider, a browser program, and the names under which
// sites are reached. A site itself is one walk's group's own.
type world struct {
	*testing.T
	dir      string // for files that processes read
	db       *pgtest.Database
	super    *pgxpool.Pool
	vars     map[string]string // of every console
	people   map[string]person
	granted  map[string]bool // people who have a role
	provider *provider
	chromium context.Context
	port     string // of every public address of the console, one site at a time
	parents  string // port of the pages that frame the console
}

const consoleHost = "console.ops.example"

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: shared(t), db: pgtest.New(t), people: map[string]person{}, granted: map[string]bool{}, port: freePort(t)}
	w.super = w.db.Super(t)
	w.certify()
	w.vars = variables(w.db)
	w.vars["SSL_CERT_FILE"] = w.path("tls.crt")
	run(t, w.vars, manifestOf([]beat{{id: "beat", seconds: []int{0}}}), "apply", "-f", "-")
	for _, name := range []string{"ada", "bob", "cleo", "dan", "eve", "gus", "mallory"} {
		w.people[name] = person{Name: strings.ToUpper(name[:1]) + name[1:] + " Example", Password: rand.Text()}
	}
	gus := w.people["gus"]
	gus.Groups = 200
	w.people["gus"] = gus
	w.parents = w.serveParents()
	w.provider = w.newProvider()
	w.chromium = startChromium(t)
	return w
}

// shared is a directory that processes of other users may read.
func shared(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ql3-walks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, content string) string {
	w.Helper()
	if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
	return w.path(name)
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// certify makes the certificate that every server here shows, which is its own authority.
func (w *world) certify() {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "walks"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"localhost", "*.ops.example", "elsewhere.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		w.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.Fatal(err)
	}
	w.write("tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	w.write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

// parentPage is a page of another origin that frames an address or has a form that is sent to it.
const parentPage = `<!doctype html><title>parent</title><h1>A page around the console</h1>
{{with .Get "frame"}}<iframe src="{{.}}" width="900" height="600"></iframe>{{end}}
{{with .Get "form"}}<form method="post" action="{{.}}"><button>Win a prize</button></form>{{end}}`

// serveParents serves that page under any name.
func (w *world) serveParents() (port string) {
	w.Helper()
	page := template.Must(template.New("parent").Parse(parentPage))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := page.Execute(rw, r.URL.Query()); err != nil {
			w.Errorf("a page around the console: %v", err)
		}
	}))
	certificate, err := tls.LoadX509KeyPair(w.path("tls.crt"), w.path("tls.key"))
	if err != nil {
		w.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	w.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return port
}

// parent is the address of a page on host that has address in a frame or a form.
func (w *world) parent(host, as, address string) string {
	return "https://" + host + ":" + w.parents + "/?" + url.Values{as: {address}}.Encode()
}

// A provider is the independent OpenID provider of provider.mjs.
type provider struct {
	w       *world
	issuer  string
	secrets map[string]string
	config  string
	process *program
}

func (w *world) newProvider() *provider {
	w.Helper()
	port := freePort(w)
	p := &provider{w: w, issuer: "https://localhost:" + port, secrets: map[string]string{"console": rand.Text(), "oauth2-proxy": rand.Text()}}
	config := map[string]any{"issuer": p.issuer, "port": port, "cert": w.path("tls.crt"), "key": w.path("tls.key"), "keys": w.path("jwks.json"), "accounts": w.people,
		"clients": p.clients("https://" + consoleHost + ":" + w.port)}
	text, err := json.Marshal(config)
	if err != nil {
		w.Fatal(err)
	}
	p.config = w.write("provider.json", string(text))
	p.start(w)
	return p
}

// clients are the console's own at each of its mounts, because a provider tells a client's logouts to one address, and
// oauth2-proxy's.
func (p *provider) clients(origin string) (list []map[string]any) {
	var proxied []string
	for _, m := range mounts {
		base := origin + m.path
		proxied = append(proxied, base+"/oauth2/callback")
		list = append(list, map[string]any{"client_id": ownClient(m.path), "client_secret": p.secrets["console"],
			"redirect_uris": []string{base + "/auth/callback"}, "post_logout_redirect_uris": []string{base + "/auth/signed-out"},
			"backchannel_logout_uri": base + "/auth/backchannel-logout", "backchannel_logout_session_required": true})
	}
	return append(list, map[string]any{"client_id": "oauth2-proxy", "client_secret": p.secrets["oauth2-proxy"], "redirect_uris": proxied})
}

func ownClient(mount string) string { return "console" + strings.ReplaceAll(mount, "/", "-") }

// start starts the provider, the first time and after [process.kill]. It lives as long as t.
func (p *provider) start(t testing.TB) {
	t.Helper()
	program, err := filepath.Abs("provider.mjs")
	if err != nil {
		t.Fatal(err)
	}
	p.process = start(t, command("node", map[string]string{"NODE_EXTRA_CA_CERTS": p.w.path("tls.crt"), "NODE_NO_WARNINGS": "1"}, program, p.config))
	p.process.until(t, "listening")
}

// until waits until p has written word.
func (p *program) until(t testing.TB, word string) {
	t.Helper()
	eventually(t, filepath.Base(p.Cmd.Path)+" says "+word, func() bool {
		p.mustRun(t)
		return strings.Contains(p.output.String(), word)
	})
}

// answerTokens makes the token endpoint answer with ok, error or html from now on.
func (p *provider) answerTokens(t testing.TB, with string) {
	t.Helper()
	response, err := p.w.client().Post(p.issuer+"/e2e/token", "application/x-www-form-urlencoded", strings.NewReader("answer="+with))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("the provider's token switch answered %s", response.Status)
	}
}

// client is an HTTP client without cookies that follows nothing. Every name of the walks leads to this machine.
func (w *world) client() *http.Client {
	w.Helper()
	content, err := os.ReadFile(w.path("tls.crt"))
	if err != nil {
		w.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(content)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// An answer is a response that was read.
type answer struct {
	*http.Response
	body string
}

// ask sends one request without cookies. The headers' Host, if any, is the name that is asked for.
func (w *world) ask(t testing.TB, method, address string, headers http.Header) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = headers.Clone()
	if host := headers.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	response, err := w.client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}
}
