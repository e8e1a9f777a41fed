package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/process"
)

// keeperEnv makes the test binary a keeper: it starts a server in the directory the
// variable names, prints the server's URL, and waits to be killed.
const keeperEnv = "CONSOLE_TEST_KEEPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperEnv); dir != "" {
		keep(dir)
	}
	os.Exit(m.Run())
}

func keep(dir string) {
	s, err := Start(context.Background(), config(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.SuperuserURL())
	select {}
}

// config is the fastest server there is. Its binaries are those `make test` found.
func config(dir string) Config {
	return Config{Dir: dir, Bin: os.Getenv("CONSOLE_POSTGRES_BIN")}
}

// reachableDir is t.TempDir where the server's user can enter it.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "console-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Start(%s) = %v, want a server", cfg.Dir, err)
	}
	t.Cleanup(func() { _ = s.Kill() }) // for a test that fails half-way
	return s
}

// ask runs one statement in a connection of its own and returns its one value.
func ask(t *testing.T, s *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestStartAndStartAgain(t *testing.T) {
	dir := filepath.Join(reachableDir(t), "deep", "down")
	cfg := config(dir)
	cfg.Settings = map[string]string{"max_connections": "33"}

	s := start(t, cfg)
	first := s.SuperuserURL()
	settings := map[string]string{
		"max_connections": "33", "fsync": "off", "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
		"server_encoding": "UTF8", "TimeZone": "UTC", "data_checksums": "on",
	}
	for name, want := range settings {
		if got := ask(t, s, "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("setting %s = %q, want %q", name, got, want)
		}
	}
	if got := ask(t, s, "SELECT datcollate FROM pg_database WHERE datname = current_database()"); got != "C.UTF-8" {
		t.Errorf("collation = %q, want C.UTF-8", got)
	}
	ask(t, s, "SELECT lo_from_bytea(4711, 'still here')::text")
	if err := s.Stop(); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err() after Stop = %v, want nil", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop() = %v, want nil", err)
	}

	s = start(t, cfg)
	if diff := cmp.Diff(first, s.SuperuserURL()); diff != "" {
		t.Errorf("URL after a restart (-first +second):\n%s", diff)
	}
	if got := ask(t, s, "SELECT convert_from(lo_get(4711), 'UTF8')"); got != "still here" {
		t.Errorf("large object after a restart = %q", got)
	}
}

func TestRememberedPortIsTaken(t *testing.T) {
	dir := reachableDir(t)
	s := start(t, config(dir))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	other := config(reachableDir(t))
	other.Port = s.port
	start(t, other)

	again := start(t, config(dir))
	if again.port == s.port {
		t.Errorf("port = %d, which another server has", again.port)
	}
}

func TestGivenPortIsTaken(t *testing.T) {
	s := start(t, config(reachableDir(t)))
	cfg := config(reachableDir(t))
	cfg.Port = s.port
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("Start on a taken port = %v, want the server's own words", err)
	}
	cfg.Port = 0
	start(t, cfg) // the failed start gave the directory back
}

func TestStartIsCancelled(t *testing.T) {
	dir := reachableDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, config(dir)); !errors.Is(err, context.Canceled) {
		t.Fatalf("Start with a cancelled context = %v, want context.Canceled", err)
	}
	start(t, config(dir)) // what it left half-made is no hindrance
}

func TestSecondHolder(t *testing.T) {
	dir := reachableDir(t)
	start(t, config(dir))
	_, err := Start(t.Context(), config(dir))
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("second Start = %v, want ErrInUse", err)
	}
	want := fmt.Sprintf("process %d since %s", os.Getpid(), time.Now().UTC().Format("2006-01-02T"))
	if !strings.Contains(err.Error(), want) {
		t.Errorf("second Start = %q, want it to say %q", err, want)
	}
}

func TestPasswordIsAsked(t *testing.T) {
	s := start(t, config(reachableDir(t)))
	conn, err := pgx.Connect(t.Context(), strings.Replace(s.SuperuserURL(), s.password, "guess", 1))
	if err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password was let in")
	}
	if got := fmt.Sprintf("%v %+v", s, s); strings.Contains(got, s.password) {
		t.Errorf("a printed Server shows its password: %s", got)
	}
	info, err := os.Stat(filepath.Join(s.cluster.dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the password file = %#o, want 0600", got)
	}
}

func TestURL(t *testing.T) {
	s := &Server{port: 5433, password: "p w"}
	tests := []struct{ name, user, database, want string }{
		{"superuser", "postgres", "ql3", "postgres://postgres:p%20w@127.0.0.1:5433/ql3?sslmode=disable"},
		{"another role has a password we do not know", "ql3_runtime", "ql3", "postgres://ql3_runtime@127.0.0.1:5433/ql3?sslmode=disable"},
		{"odd names are escaped", "a/b", "c?d", "postgres://a%2Fb@127.0.0.1:5433/c%3Fd?sslmode=disable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.URL(tt.user, tt.database); got != tt.want {
				t.Errorf("URL(%q, %q) = %q, want %q", tt.user, tt.database, got, tt.want)
			}
		})
	}
}

func TestKillAndRecover(t *testing.T) {
	dir := reachableDir(t)
	s := start(t, config(dir))
	conn, err := pgx.Connect(t.Context(), s.SuperuserURL()) // a backend that must die too
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (word text)"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES ('committed')"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatalf("Kill() = %v", err)
	}
	if left, err := s.cluster.members(); err != nil || len(left) > 0 {
		t.Errorf("members after Kill = %v, %v, want none", left, err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err() after Kill = %v, want nil: it was asked for", err)
	}
	if _, err := os.Stat(s.cluster.pidFile()); err != nil {
		t.Errorf("pid file after Kill: %v, want it left as a crash leaves it", err)
	}

	s = start(t, config(dir))
	if got := ask(t, s, "SELECT word FROM kept"); got != "committed" {
		t.Errorf("row after a crash = %q, want %q", got, "committed")
	}
}

func TestServerEndsByItself(t *testing.T) {
	dir := reachableDir(t)
	s := start(t, config(dir))
	if err := s.Err(); err != nil {
		t.Errorf("Err() of a running server = %v, want nil", err)
	}
	if err := s.process.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "immediate shutdown") {
		t.Errorf("Err() = %v, want the server's last words", err)
	}
	start(t, config(dir))
}

// The keeper is killed with no chance to clean up: its server must go with it, and
// the directory be free for the next.
func TestKeeperIsKilled(t *testing.T) {
	dir := reachableDir(t)
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), keeperEnv+"="+dir)
	keeper.Stderr = t.Output()
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = keeper.Wait() // "signal: killed" is what was asked for

	c, err := openCluster(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.gone(t.Context(), 10*time.Second); err != nil {
		t.Errorf("after the keeper was killed: %v", err)
	}
	c.lock.release()

	s := start(t, config(dir))
	if got := s.SuperuserURL() + "\n"; got != first {
		t.Errorf("URL after the keeper was killed = %q, want %q", redact(got), redact(first))
	}
}

func redact(s string) string {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return "not a URL"
	}
	return u.Redacted()
}

// A server whose keeper is gone and that did not get the parent-death signal.
func TestOrphanIsEnded(t *testing.T) {
	dir := reachableDir(t)
	s := start(t, config(dir))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	orphan, err := process.Start(s.cluster.command("postgres", s.cluster.serverArgs(config(dir), s.port)...), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orphan.End(process.Kill) })
	if err := s.cluster.waitReady(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}

	again := start(t, config(dir))
	select {
	case <-orphan.Done:
	default:
		t.Error("the orphan still runs beside the new server")
	}
	if again.port != s.port {
		t.Errorf("port = %d, want %d, which the orphan gave back", again.port, s.port)
	}
}

// A stale pid file may name a process that has nothing to do with PostgreSQL.
func TestPIDFileNamesAStranger(t *testing.T) {
	dir := reachableDir(t)
	s := start(t, config(dir))
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("cat")
	stranger.SysProcAttr = s.cluster.account.attr()
	stdin, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	renamePID(t, s.cluster.pidFile(), stranger.Process.Pid)

	start(t, config(dir))
	stdin.Close()
	if err := stranger.Wait(); err != nil {
		t.Errorf("the stranger ended with %v, want it left alone", err)
	}
}

func renamePID(t *testing.T, file string, pid int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if err := os.WriteFile(file, []byte(strconv.Itoa(pid)+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnreachableDir(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's server runs as another user")
	}
	dir := t.TempDir() // in a directory of mode 0700
	_, err := Start(t.Context(), config(filepath.Join(dir, "pg")))
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+filepath.Dir(dir)) {
		t.Errorf("Start = %v, want it to name %s", err, filepath.Dir(dir))
	}
}

// What depends on who the keeper is, as a user without privileges.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("already an ordinary user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	a, err := fromUser(nobody)
	if err != nil {
		t.Fatal(err)
	}
	dir := reachableDir(t)
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o700), a.give(tmp)); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "postgres.test")
	copyExecutable(t, os.Args[0], self)

	cmd := exec.CommandContext(t.Context(), self, "-test.timeout=60s", "-test.run=Again|Holder|Recover|Keeper|Orphan|Stranger")
	cmd.Dir, cmd.SysProcAttr = "/", a.attr()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "CONSOLE_POSTGRES_BIN=" + os.Getenv("CONSOLE_POSTGRES_BIN")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("tests as nobody: %v\n%s", err, out)
	}
}

func copyExecutable(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		t.Fatal(err)
	}
}
