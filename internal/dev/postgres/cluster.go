package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qinglong/console/internal/process"
)

// A cluster is a directory this process holds the lock of, and what runs in it.
type cluster struct {
	dir     string
	data    string
	account account
	bin     binaries
	lock    *lock
	log     *tail
}

// openCluster takes the directory and finds out who can run what in it. It touches
// no data.
func openCluster(cfg Config) (*cluster, error) {
	if cfg.Dir == "" {
		return nil, errors.New("no directory given")
	}
	dir, err := makeDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, data: filepath.Join(dir, "data"), log: &tail{next: cfg.Log}}
	if c.lock, err = takeLock(dir); err != nil {
		return nil, err
	}
	if err := c.chooseRunner(cfg.Bin); err != nil {
		c.lock.release()
		return nil, err
	}
	return c, nil
}

// chooseRunner decides which user runs which binaries.
func (c *cluster) chooseRunner(bin string) error {
	major, err := c.majorOfData()
	if err != nil {
		return err
	}
	if c.account, err = serverAccount(c.data); err != nil {
		return err
	}
	if err := c.account.mustReach(c.dir); err != nil {
		return err
	}
	c.bin, err = findBinaries(bin, major, c.account)
	return err
}

// makeDir makes the directory and returns its one true name, by which the processes
// of its server are recognised. Root lets others pass through it, not look into it.
func makeDir(dir string) (string, error) {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		if err := os.Chmod(dir, mode); err != nil {
			return "", err
		}
	}
	return filepath.EvalSymlinks(dir)
}

// majorOfData returns the version that made the data, 0 if there is none yet.
func (c *cluster) majorOfData() (int, error) {
	b, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// create makes the cluster unless it is there, and returns the superuser's password.
// It works on a directory of another name: data/ is whole or does not exist.
func (c *cluster) create(ctx context.Context, durable bool) (string, error) {
	if _, err := os.Stat(c.data); err == nil {
		return c.readPassword()
	}
	password := rand.Text()
	if err := c.writeFile("password", password); err != nil {
		return "", err
	}
	unfinished := c.data + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o700), c.account.give(unfinished)); err != nil {
		return "", err
	}
	if err := c.initdb(ctx, unfinished, durable); err != nil {
		return "", err
	}
	return password, os.Rename(unfinished, c.data)
}

func (c *cluster) initdb(ctx context.Context, data string, durable bool) error {
	args := []string{
		"--pgdata", data, "--username", superuser, "--pwfile", c.path("password"), "--auth", "scram-sha-256",
		"--locale", "C.UTF-8", "--encoding", "UTF8", "--data-checksums", "--no-instructions",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	cmd := c.command("initdb", args...)
	p, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		return c.log.explain(fmt.Errorf("initdb: %w", err))
	}
	return nil
}

// serverArgs are the server's arguments: our defaults, then the caller's settings,
// then what nobody may change.
func (c *cluster) serverArgs(cfg Config, port int) []string {
	args := []string{"-D", c.data}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("timezone", "UTC")
	set("log_timezone", "UTC")
	if !cfg.Durable {
		set("fsync", "off")
		set("full_page_writes", "off")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Settings)) {
		set(name, cfg.Settings[name])
	}
	set("listen_addresses", host)
	set("port", strconv.Itoa(port))
	set("unix_socket_directories", "")
	set("cluster_name", c.name())
	set("update_process_title", "on") // the name in it is how members are recognised
	return args
}

// name marks the processes of this cluster and of no other.
func (c *cluster) name() string {
	h := fnv.New64a()
	h.Write([]byte(c.data))
	return fmt.Sprintf("console-%016x", h.Sum64())
}

// command prepares a program of the server to run as its account.
func (c *cluster) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin.dir, program), args...)
	cmd.Dir = "/" // the account may not be able to enter ours
	cmd.Env = c.bin.env()
	cmd.Stdout, cmd.Stderr = c.log, c.log
	cmd.SysProcAttr = c.account.attr()
	cmd.WaitDelay = 2 * time.Second // a child of it may keep the log open
	return cmd
}

// waitReady waits until the server says in its pid file that it takes clients, as a
// primary or as a standby. It is the server's own word, and a foreign server on the
// port cannot say it.
func (c *cluster) waitReady(ctx context.Context, p *process.Process) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !c.isReady(p.Cmd.Process.Pid) {
		select {
		case <-p.Done:
			return c.log.explain(fmt.Errorf("the server ended while starting: %w", p.Err()))
		case <-ctx.Done():
			return c.log.explain(fmt.Errorf("the server was not ready in time: %w", ctx.Err()))
		case <-tick.C:
		}
	}
	return nil
}

func (c *cluster) isReady(pid int) bool {
	b, err := os.ReadFile(c.pidFile())
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	said := strings.TrimSpace(lines[len(lines)-1])
	return lines[0] == strconv.Itoa(pid) && (said == "ready" || said == "standby")
}

// choosePort returns the wanted port, or the remembered one, or a free one.
func (c *cluster) choosePort(want int) (int, error) {
	if want != 0 {
		return want, nil
	}
	if b, err := os.ReadFile(c.path("port")); err == nil {
		port, err := strconv.Atoi(string(bytes.TrimSpace(b)))
		if err == nil && portIsFree(port) {
			return port, nil
		}
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (c *cluster) rememberPort(port int) error { return c.writeFile("port", strconv.Itoa(port)) }

func (c *cluster) readPassword() (string, error) {
	b, err := os.ReadFile(c.path("password"))
	if err != nil {
		return "", fmt.Errorf("the superuser's password is lost (remove the directory to begin anew): %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) pidFile() string { return filepath.Join(c.data, "postmaster.pid") }

// writeFile replaces a file whole. The account owns it, for initdb reads the password.
func (c *cluster) writeFile(name, content string) error {
	unfinished := c.path(name) + ".new"
	if err := os.WriteFile(unfinished, []byte(content+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(c.account.give(unfinished), os.Rename(unfinished, c.path(name)))
}
