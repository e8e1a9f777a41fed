package e2e

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	besiegedHost = "console.example"
	// mostMemory is what a replica may take under any of these loads. Without one it takes a quarter of it.
	mostMemory = 200 << 20
	// mostOpen is how many files a replica may have open: its 1,024 connections, those to the database, and a few.
	mostOpen = 1024 + 100
)

// A siege is a replica under load, one Trigger that is due every second, and one user who is signed in.
type siege struct {
	*testing.T
	replica *replica
	address string // of its pages
	super   *pgxpool.Pool
	session *http.Cookie
	client  *http.Client
}

// newSiege starts the replica. Its user has signed in at another one, of the same console, which believes a proxy.
func newSiege(t *testing.T) *siege {
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	vars := variables(db)
	run(t, vars, everySecond(1), "apply", "-f", "-")
	vars["CONSOLE_PUBLIC_URL"], vars["CONSOLE_TRUSTED_PROXIES"] = "https://"+besiegedHost, "127.0.0.1/32"
	s := &siege{T: t, super: db.Super(t), client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	behind := map[string]string{"CONSOLE_PROXY_IDENTITY": "headers", "CONSOLE_PROXY_NAME": "sso", "CONSOLE_PROXY_USER_HEADER": "X-User"}
	for name, value := range vars {
		behind[name] = value
	}
	s.signIn(serve(t, program, behind))
	run(t, vars, "", "grant", "--project", "ops", "--role", "viewer", "--yes", "--user", pgtest.Value[uuid.UUID](t, s.super, "SELECT user_id FROM ql3.console_sessions").String())
	vars["CONSOLE_OIDC_ISSUER"], vars["SSL_CERT_FILE"] = discovered(t)
	vars["CONSOLE_OIDC_CLIENT_ID"] = "console"
	s.use(serve(t, program, vars))
	return s
}

// discovered is an identity provider that can be discovered and no more, and the file with its certificate.
func discovered(t *testing.T) (issuer, certificate string) {
	t.Helper()
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := "https://" + r.Host
		json.NewEncoder(w).Encode(map[string]any{"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}})
	}))
	t.Cleanup(provider.Close)
	certificate = filepath.Join(t.TempDir(), "provider.crt")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return provider.URL, certificate
}

// use makes r the replica that is asked.
func (s *siege) use(r *replica) {
	for line := range strings.Lines(r.output.String()) {
		var said struct{ Msg, Public string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening" {
			s.replica, s.address = r, said.Public
		}
	}
}

// signIn begins a session at r, which then is ended.
func (s *siege) signIn(r *replica) {
	s.Helper()
	s.use(r)
	answer, err := s.client.Do(s.request(http.MethodGet, "/", nil, "X-User", "watcher"))
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	for _, c := range answer.Cookies() {
		if strings.HasSuffix(c.Name, "_session") {
			s.session = c
		}
	}
	if s.session == nil {
		s.Fatalf("no session began: %s", answer.Status)
	}
	r.kill()
}

// request is what the user's browser sends, with further headers.
func (s *siege) request(method, path string, body io.Reader, headers ...string) *http.Request {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.address+path, body)
	if err != nil {
		s.Fatal(err)
	}
	r.Host = besiegedHost
	headers = append(headers, "Accept", "text/html", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "document", "Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Get(headers[i]) == "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	if s.session != nil {
		r.AddCookie(s.session)
	}
	return r
}

// status is how a request was answered, 0 if it was not.
func (s *siege) status(r *http.Request) int {
	answer, err := s.client.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// dial opens a connection and sends text on it. It is closed when the test ends.
func (s *siege) dial(text string) net.Conn {
	s.Helper()
	conn, err := net.DialTimeout("tcp", s.address, patience)
	if err != nil {
		s.Error(err)
		return nil
	}
	s.Cleanup(func() { conn.Close() })
	io.WriteString(conn, text)
	return conn
}

// open is how many files the replica has open: its connections, for the most part.
func (s *siege) open() int {
	s.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.replica.Cmd.Process.Pid))
	if err != nil {
		s.Fatal(err)
	}
	return len(list)
}

// mostResident is the most memory that the replica has had so far, in bytes.
func (s *siege) mostResident() int {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.replica.Cmd.Process.Pid))
	if err != nil {
		s.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		s.Fatal(err)
	}
	return kilobytes << 10
}

// admitted waits until n instants that are still to come have their Runs.
func (s *siege) admitted(n int) {
	s.Helper()
	until := clockMS(s, s.super) + int64(n)*1000
	eventually(s, fmt.Sprintf("%d more instants have their Runs", n), func() bool {
		return pgtest.Value[bool](s, s.super, "SELECT coalesce(max(scheduled_for_ms) >= $1, false) FROM ql3.runs", until)
	})
}

// under holds the replica to its promises while load goes on: the user who is signed in is served, on a new connection each
// time, but for one page in ten that a busy machine may keep waiting; no instant is lost; memory and open files are bounded;
// and afterwards it is as it was before.
func (s *siege) under(t *testing.T, load func(*siege)) {
	o := *s
	o.T = t
	fromMS, before, goroutines := clockMS(t, s.super), s.open(), s.replica.metric(t, "go_goroutines")
	done := make(chan struct{})
	var looking sync.WaitGroup
	var pages, unserved, most int
	looking.Go(func() {
		for going := true; going; {
			select {
			case <-done:
				going = false
			case <-time.After(100 * time.Millisecond):
			}
			r := o.request(http.MethodGet, "/", nil)
			r.Close = true
			if o.status(r) != http.StatusOK {
				unserved++
			}
			pages, most = pages+1, max(most, o.open())
		}
	})
	t.Run("load", func(t *testing.T) { // at whose end what it opened is closed
		o := o
		o.T = t
		load(&o)
	})
	o.admitted(1)
	close(done)
	looking.Wait()
	if unserved*10 > pages {
		t.Errorf("of %d pages of somebody else %d were not served", pages, unserved)
	}
	if most > mostOpen {
		t.Errorf("the replica had %d files open, want %d at most", most, mostOpen)
	}
	if got := o.mostResident(); got > mostMemory {
		t.Errorf("the replica took %d MB, want %d at most", got>>20, mostMemory>>20)
	}
	o.lostNothing(fromMS)
	s.client.CloseIdleConnections()
	eventually(t, "the replica is as it was before", func() bool {
		return o.open() <= before+20 && o.replica.metric(t, "go_goroutines") <= goroutines+40
	})
	t.Logf("%d pages, %d not served; at most %d files open (%d before) and %d MB; %v goroutines before, %v after", pages, unserved, most, before, o.mostResident()>>20, goroutines, o.replica.metric(t, "go_goroutines"))
}

// lostNothing looks for seconds without a Run that the account does not name either.
func (s *siege) lostNothing(fromMS int64) {
	s.Helper()
	lost := pgtest.Column[int64](s, s.super, `
		SELECT at FROM generate_series($1::bigint / 1000 * 1000 + 1000, (SELECT max(scheduled_for_ms) FROM ql3.runs), 1000) AS at
		WHERE NOT EXISTS (SELECT FROM ql3.runs WHERE scheduled_for_ms = at)
			AND NOT EXISTS (SELECT FROM ql3.schedule_events WHERE type IN ('coalesced', 'skipped') AND at BETWEEN first_at_ms AND last_at_ms)`, fromMS)
	if len(lost) > 0 {
		s.Errorf("%d instants were lost: %v", len(lost), lost)
	}
}

// atOnce does n times what do does, so many at a time.
func atOnce(n, workers int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// A replica under loads that nobody means well with goes on admitting, serves others, and is bounded in what it takes.
func TestOverload(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	s.admitted(1)
	for _, load := range []struct {
		name string
		load func(*siege)
	}{
		{"connections that say nothing", silentConnections}, {"headers that never end", slowHeaders}, {"huge headers", hugeHeaders}, {"huge bodies", hugeBodies},
		{"streams that nobody reads", unreadStreams}, {"ten thousand starts of a sign-in", signInStarts},
	} {
		t.Run(load.name, func(t *testing.T) { s.under(t, load.load) })
	}
	t.Run("pages that wait for the database", func(t *testing.T) { waitingPages(t, s) })
}

func silentConnections(s *siege) {
	atOnce(3000, 32, func(int) { s.dial("") })
	s.admitted(1)
}

// Each connection is closed by the server, the last of them because its header takes too long.
func slowHeaders(s *siege) {
	atOnce(1500, 1500, func(int) {
		conn := s.dial("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		if conn == nil {
			return
		}
		go func() {
			for _, err := io.WriteString(conn, "a"); err == nil; _, err = io.WriteString(conn, "a") {
				<-time.After(250 * time.Millisecond)
			}
		}()
		conn.SetReadDeadline(time.Now().Add(12 * time.Second)) // a whole request may take 15 s, its header 5
		if _, err := io.Copy(io.Discard, conn); err != nil && os.IsTimeout(err) {
			s.Error("a header may take as long as a request")
		}
	})
}

func hugeHeaders(s *siege) {
	filler := strings.Repeat("a", 64<<10)
	atOnce(200, 32, func(int) {
		// Some answers are lost to the connection's end, which comes before the header is sent to its end.
		if status := s.status(s.request(http.MethodGet, "/auth/sign-in", nil, "X-Filler", filler)); status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
			s.Errorf("a header of 64 KB is answered with %d", status)
		}
	})
}

func hugeBodies(s *siege) {
	declared := s.dial("POST /preferences HTTP/1.1\r\nHost: " + besiegedHost + "\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000000000\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(declared), nil)
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
		s.Errorf("a body of 1 GB is answered with %v, %v", answer, err)
	}
	atOnce(64, 32, func(int) {
		body := &endless{}
		if status := s.status(s.request(http.MethodPost, "/preferences", body)); status < 400 && status != 0 {
			s.Errorf("an endless body is answered with %d", status)
		}
		if n := body.read.Load(); n > 8<<20 { // some of it is in buffers between here and there
			s.Errorf("%d MB were taken of an endless body", n>>20)
		}
	})
}

// An endless body is one form field.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	if e.read.Add(int64(len(p))) > 64<<20 {
		return 0, io.EOF
	}
	return len(p), nil
}

// The streams of a page that changes every second are not read, and one more than one may have is refused.
func unreadStreams(s *siege) {
	request := "GET /runs HTTP/1.1\r\nHost: " + besiegedHost + "\r\nAccept: text/event-stream\r\nSec-Fetch-Dest: empty\r\nCookie: " + s.session.Name + "=" + s.session.Value + "\r\n\r\n"
	for range 5 {
		conn := s.dial(request)
		if answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil); err != nil || answer.StatusCode != http.StatusOK {
			s.Fatalf("a stream is answered with %v, %v", answer, err)
		}
	}
	if answer, err := http.ReadResponse(bufio.NewReader(s.dial(request)), nil); err != nil || answer.StatusCode != http.StatusTooManyRequests {
		s.Errorf("one stream too many is answered with %v, %v", answer, err)
	}
	s.admitted(3)
}

// Half of them come from one address, half from as many as there are. What is let through leaves a row each, and is what the
// limits of an address and of all let through in the time that it took.
func signInStarts(s *siege) {
	began, browser := time.Now(), *s
	browser.session = nil
	var begun [2]atomic.Int64
	for half := range begun {
		atOnce(5000, 32, func(i int) {
			address := fmt.Sprintf("2001:db8:%x:%x::1", half, half*i)
			switch status := browser.status(browser.request(http.MethodPost, "/auth/sign-in", nil, "X-Forwarded-For", address)); status {
			case http.StatusOK:
				begun[half].Add(1)
			case http.StatusTooManyRequests:
			default:
				s.Errorf("a sign-in is begun with %d", status)
			}
		})
	}
	seconds := int64(time.Since(began).Seconds()) + 1
	one, many := begun[0].Load(), begun[1].Load()
	if one > 300+10*seconds || one+many > 1000+50*seconds || one == 0 || many == 0 {
		s.Errorf("in %d s %d sign-ins were begun from one address, and %d from others", seconds, one, many)
	}
	if rows := pgtest.Value[int64](s, s.super, "SELECT count(*) FROM ql3.auth_transactions"); rows != one+many {
		s.Errorf("%d sign-ins were begun, and left %d rows", one+many, rows)
	}
	s.Logf("in %d s %d sign-ins were begun from one address, and %d from others", seconds, one, many)
}

// More pages than there are connections for wait for a table that somebody holds. Each is answered soon all the same, and the
// scheduler, whose connections are its own, goes on.
func waitingPages(t *testing.T, s *siege) {
	fromMS := clockMS(t, s.super)
	tx, err := s.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	pgtest.Exec(t, tx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	pgtest.Exec(t, tx, "LOCK TABLE ql3.console_sessions IN ACCESS EXCLUSIVE MODE")
	atOnce(40, 40, func(int) {
		if status := s.status(s.request(http.MethodGet, "/runs", nil)); status != http.StatusServiceUnavailable {
			t.Errorf("a page that waits for the database is answered with %d", status)
		}
	})
	s.admitted(2)
	tx.Rollback(t.Context())
	if status := s.status(s.request(http.MethodGet, "/runs", nil)); status != http.StatusOK {
		t.Errorf("a page is answered with %d once the database answers", status)
	}
	s.lostNothing(fromMS)
}
