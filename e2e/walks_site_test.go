//go:build walks

package e2e

import (
	"encoding/base64"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A site is the console at its public address, with what stands in front of it.
type site struct {
	*world
	url     string // CONSOLE_PUBLIC_URL
	mount   string // its path
	listen  string // where the console itself listens
	proxied bool   // an SSO proxy says who is at the browser
	replica *replica
}

func (w *world) newSite(t testing.TB, mount string) *site {
	t.Helper()
	return &site{world: w, mount: mount, url: "https://" + consoleHost + ":" + w.port + mount, listen: "127.0.0.1:" + freePort(t)}
}

// own is a console that signs people in itself, behind TLS.
func (w *world) own(t testing.TB, mount string) *site {
	t.Helper()
	s := w.newSite(t, mount)
	s.serve(t, "own.env")
	s.nginx(t, "own.nginx.conf", nil)
	return s
}

// forward is a console with oauth2-proxy in front of it.
func (w *world) forward(t testing.TB, mount string) *site {
	t.Helper()
	s := w.newSite(t, mount)
	s.proxied = true
	s.serve(t, "jwt.env")
	s.oauth2Proxy(t, "forward.oauth2-proxy.cfg", s.address())
	return s
}

// authRequest is a console behind an nginx that asks oauth2-proxy about every request.
func (w *world) authRequest(t testing.TB, mount string) *site {
	t.Helper()
	s := w.newSite(t, mount)
	s.proxied = true
	s.serve(t, "jwt.env")
	beside := "127.0.0.1:" + freePort(t)
	s.oauth2Proxy(t, "auth-request.oauth2-proxy.cfg", beside)
	s.nginx(t, "auth-request.nginx.conf", map[string]string{"127.0.0.1:4180": beside})
	return s
}

func (s *site) address() string { return "127.0.0.1:" + s.port }

// configuration reads a file of [deployed] and puts this machine's addresses into it. A documented word that no file
// holds any more would be a test of nothing, so what is given in more must be there.
func (s *site) configuration(t testing.TB, name string, more map[string]string) string {
	t.Helper()
	content, err := os.ReadFile(deployed + name)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{
		"https://" + consoleHost: "https://" + consoleHost + ":" + s.port, "https://wiki.ops.example": "https://wiki.ops.example:" + s.parents,
		"https://idp.example": s.provider.issuer, "/ops/console": s.mount,
		"/etc/console/tls.crt": s.path("tls.crt"), "/etc/console/tls.key": s.path("tls.key"),
	}
	maps.Copy(words, more)
	var pairs []string
	for old, new := range words {
		if more[old] != "" && !strings.Contains(string(content), old) {
			t.Fatalf("%s does not hold %q", name, old)
		}
		pairs = append(pairs, old, new)
	}
	return strings.NewReplacer(pairs...).Replace(string(content))
}

// serve starts the console with the variables of a file.
func (s *site) serve(t testing.TB, name string, args ...string) {
	t.Helper()
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	vars := maps.Clone(s.vars)
	text := s.configuration(t, name, map[string]string{"127.0.0.1:8080": s.listen})
	text = strings.ReplaceAll(text, "CLIENT_ID=console", "CLIENT_ID="+ownClient(s.mount))
	text = strings.ReplaceAll(text, "/etc/console/oidc-client-secret", s.write("secret", s.provider.secrets["console"]))
	for line := range strings.Lines(text) {
		if variable, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(variable, "#") {
			vars[variable] = value
		}
	}
	s.replica = serve(t, program, vars, args...)
}

// nginx starts nginx in front of the console with the server of a file.
func (s *site) nginx(t testing.TB, name string, more map[string]string) {
	t.Helper()
	words := map[string]string{"listen 443 ssl": "listen " + s.address() + " ssl", "127.0.0.1:8080": s.listen}
	maps.Copy(words, more)
	dir, err := os.MkdirTemp(s.dir, "nginx-")
	if err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(dir, "server.conf")
	main := filepath.Join(dir, "nginx.conf")
	for path, content := range map[string]string{server: s.configuration(t, name, words), main: nginxMain} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, command(tool(t, "CONSOLE_NGINX"), nil, "-p", dir, "-e", "stderr", "-c", main))
	p.untilOpen(t, s.address())
}

// nginxMain is the rest of an nginx that runs for one test.
const nginxMain = `
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path tmp-body;
    proxy_temp_path tmp-proxy;
    fastcgi_temp_path tmp-fastcgi;
    uwsgi_temp_path tmp-uwsgi;
    scgi_temp_path tmp-scgi;
    include server.conf;
}
`

// oauth2Proxy starts oauth2-proxy with a file and waits until it listens on address.
func (s *site) oauth2Proxy(t testing.TB, name, address string) {
	t.Helper()
	words := map[string]string{"127.0.0.1:8080": s.listen, "0.0.0.0:443": address, "127.0.0.1:4180": address}
	if strings.HasPrefix(name, "forward") {
		delete(words, "127.0.0.1:4180")
	} else {
		delete(words, "127.0.0.1:8080")
		delete(words, "0.0.0.0:443")
	}
	config := s.write(name, s.configuration(t, name, words))
	p := start(t, command(tool(t, "CONSOLE_OAUTH2_PROXY"), map[string]string{"SSL_CERT_FILE": s.path("tls.crt"), "OAUTH2_PROXY_CLIENT_SECRET": s.provider.secrets["oauth2-proxy"],
		"OAUTH2_PROXY_COOKIE_SECRET": base64.URLEncoding.EncodeToString([]byte("thirty-two bytes of this test's."))}, "--config", config))
	p.untilOpen(t, address)
}

// tool is the program that a variable names, which .ci/setup --print-e2e prints.
func tool(t testing.TB, variable string) string {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Fatalf("%s is not set: run make e2e, which gets what the walks need", variable)
	}
	return program
}

// untilOpen waits until p listens on address.
func (p *program) untilOpen(t testing.TB, address string) {
	t.Helper()
	eventually(t, filepath.Base(p.Cmd.Path)+" listens on "+address, func() bool {
		p.mustRun(t)
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}
