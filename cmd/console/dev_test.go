package main

import (
	"encoding/json"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/idp"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// freeAddress is an address nobody listens on, this moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startDev starts `console dev` in dir, waits until it is ready, and returns what dev.json says at that moment.
func startDev(t *testing.T, dir string, as *syscall.Credential) (*replica, devFile) {
	t.Helper()
	address := freeAddress(t)
	p := start(t, postgresBin(), as, "dev", "--state-dir", dir, "--listen", address)
	eventually(t, "console dev is ready", func() bool {
		if p.hasEnded() {
			t.Fatalf("console dev ended with code %d:\n%s", p.code(), p.output)
		}
		return get(t.Context(), "http://"+address+"/readyz", "localhost").status == http.StatusOK
	})
	var f devFile
	text, err := os.ReadFile(devFilePath(dir))
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		t.Fatalf("dev.json is not complete although /readyz is 200: %v", err)
	}
	if info, err := os.Stat(devFilePath(dir)); err != nil || info.Mode() != 0o600 {
		t.Errorf("dev.json is %v (%v), want mode 0600", info.Mode(), err)
	}
	return p, f
}

// stopDev asks it to stop and waits for that.
func stopDev(t *testing.T, p *replica) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

func TestDev(t *testing.T) {
	t.Parallel()
	t.Run("as this user", func(t *testing.T) {
		t.Parallel()
		testDev(t, pgtest.Dir(t), nil)
	})
	t.Run("as an ordinary user", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			return // the other half has been just that
		}
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, gid := number(t, nobody.Uid), number(t, nobody.Gid)
		dir := pgtest.Dir(t)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		testDev(t, dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)})
	})
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testDev(t *testing.T, dir string, as *syscall.Credential) {
	dir = filepath.Join(dir, "state")
	p, f := startDev(t, dir, as)
	checkDevFile(t, f)

	second := start(t, postgresBin(), as, "dev", "--state-dir", dir)
	if code, pid := second.wait(t), strconv.Itoa(p.Cmd.Process.Pid); code != exitFailure || !strings.Contains(second.output.String(), "in use by process "+pid) {
		t.Errorf("a second console dev ends with %d and says %q, want 1 and that process %s has the directory", code, second.output, pid)
	}

	id := succeeded(t, f)
	checkPages(t, f, id)
	stopDev(t, p)

	p, f = startDev(t, dir, as)
	if got := signInDev(t, f, "owner").get(t, f.URL+"/runs/"+id, ""); got.status != http.StatusOK || !strings.Contains(got.body, "succeeded") {
		t.Errorf("after a restart the page of run %s is %d, want 200", id, got.status)
	}
	stopDev(t, p)
}

func checkDevFile(t *testing.T, f devFile) {
	t.Helper()
	got := map[string]string{}
	for name, u := range f.Databases {
		cfg, err := pgxpool.ParseConfig(u)
		if err != nil {
			t.Fatalf("databases.%s is no URL", name)
		}
		got[name] = cfg.ConnConfig.User
	}
	want := map[string]string{"migration": "ql3_migration", "admin": "ql3_admin", "runtime": "ql3_runtime",
		"runManager": "ql3_run_manager", "authn": "ql3_authn", "web": "ql3_console"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dev.json's databases by user (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(f.URL, "http://localhost:") || f.Accounts == nil {
		t.Errorf("dev.json has url %q and accounts %v, want a URL at localhost and a list", f.URL, f.Accounts)
	}
}

// succeeded waits until a Run has succeeded and returns its id. The sample has one every ten seconds.
func succeeded(t *testing.T, f devFile) string {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), f.Databases["web"])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var id string
	eventually(t, "a Run has succeeded", func() bool {
		id = pgtest.Value[string](t, pool, "SELECT coalesce(max(id::text), '') FROM ql3.runs WHERE status = 'succeeded'")
		return id != ""
	})
	if ms := pgtest.Value[int64](t, pool, "SELECT min(created_at_ms) - (SELECT min(started_at_ms) FROM ql3.replicas) FROM ql3.runs"); ms > 15_000 {
		t.Errorf("the first Run came after %d ms, want at most 15 s", ms)
	}
	return id
}

func checkPages(t *testing.T, f devFile, runID string) {
	t.Helper()
	tests := []struct {
		path, host string
		status     int
		text       string
	}{
		{"/", "", http.StatusOK, devBanner.String()},
		{"/schedules", "", http.StatusOK, "every-ten-seconds"},
		{"/runs", "", http.StatusOK, runID},
		{"/runs/" + runID, "", http.StatusOK, "succeeded"},
		{"/runs/00000000-0000-7000-8000-000000000000", "", http.StatusNotFound, ""},
		{"/", "console.example", http.StatusMisdirectedRequest, ""},
		{"/", "127.0.0.1", http.StatusMisdirectedRequest, ""},
	}
	if got := get(t.Context(), f.URL+"/runs/"+runID, ""); strings.Contains(got.body, "succeeded") {
		t.Errorf("the page of a Run is shown to somebody who has not signed in: %s", got.body)
	}
	v := signInDev(t, f, "viewer")
	for _, test := range tests {
		got := v.get(t, f.URL+test.path, test.host)
		if got.status != test.status || !strings.Contains(strings.ToLower(got.body), strings.ToLower(test.text)) {
			t.Errorf("GET %s as %q = %d, want %d and a page that says %q", test.path, test.host, got.status, test.status, test.text)
		}
	}
	if got := get(t.Context(), f.MachineURL+"/readyz", ""); got != (answer{http.StatusOK, "ready\n"}) {
		t.Errorf("the machine listener's /readyz = %+v, want ready", got)
	}
}

// visitor is somebody who has signed in.
type visitor struct{ client *http.Client }

// signInDev signs an account of the instance in, as a browser without scripts does.
func signInDev(t *testing.T, f devFile, role string) visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := visitor{&http.Client{Jar: jar}}
	goOn := v.post(t, f.URL+"/auth/sign-in", f.URL, url.Values{})
	where := regexp.MustCompile(`<a [^>]*href="([^"]*/authorize[^"]*)"`).FindStringSubmatch(goOn.body)
	if where == nil {
		t.Fatalf("starting to sign in = %d without a link to the provider:\n%s", goOn.status, goOn.body)
	}
	form := v.get(t, html.UnescapeString(where[1]), "")
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(form.body)
	i := slices.IndexFunc(f.Accounts, func(a idp.Account) bool { return a.Role == role })
	if id == nil || i < 0 {
		t.Fatalf("the provider's form is missing, or there is no %s among %v:\n%s", role, f.Accounts, form.body)
	}
	back := v.post(t, f.Issuer+"/login", f.Issuer, url.Values{"id": {id[1]}, "username": {f.Accounts[i].Username}, "password": {f.Accounts[i].Password}})
	if back.status != http.StatusOK || !strings.Contains(back.body, f.Accounts[i].Name) {
		t.Fatalf("signing in as %s = %d:\n%s", role, back.status, back.body)
	}
	return v
}

func (v visitor) get(t *testing.T, url, host string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	return v.do(t, r)
}

func (v visitor) post(t *testing.T, url, origin string, form url.Values) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", origin)
	return v.do(t, r)
}

func (v visitor) do(t *testing.T, r *http.Request) answer {
	t.Helper()
	r.Close = true
	response, err := v.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, string(body)}
}

func TestDevListensOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:8080", ":8080", "[::]:8080", "192.0.2.1:8080", "console.example:8080"} {
		for _, flag := range []string{"--listen", "--machine-listen"} {
			console(t, nil, "dev", "--state-dir", "/no/such/dir", flag, address).refused(t, exitUsage, "listens on loopback only")
		}
	}
	console(t, nil, "dev", "--state-dir", "/no/such/dir", "--listen", "8080").refused(t, exitUsage, `"8080" is no address`)
	console(t, nil, "dev", "--state-dir", "/no/such/dir", "--claim-budget", "0").refused(t, exitUsage, "claim budget is 0")
	console(t, nil, "dev", "--state-dir", "/no/such/dir", "--postgres-port", "99999").refused(t, exitUsage, "99999 is no port")
}
