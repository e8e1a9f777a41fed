package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/process"
)

// executable is this test binary where every user may run it: the go command keeps its own copy private.
var executable = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "ql3-console-")
	if err != nil {
		return "", err
	}
	executableDir = dir
	return filepath.Join(dir, "console"), copyFile(filepath.Join(dir, "console"), self)
})

var executableDir string

func removeExecutable() { os.RemoveAll(executableDir) }

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.Chmod(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := out.Close(); err != nil {
		return err
	}
	return err
}

// A replica is one real console, whatever it was asked to do.
type replica struct {
	*process.Process
	output *process.Output

	public, machine string // http://ADDRESS, once listening
}

// start runs the console as a process of its own, as user if that is not nil. It is killed when the test ends.
func start(t *testing.T, vars map[string]string, user *syscall.Credential, args ...string) *replica {
	t.Helper()
	program, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := exec.Command(program, args...), &process.Output{}
	cmd.Env = []string{beConsole + "=1", "PATH=" + os.Getenv("PATH")}
	for name, value := range vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	child, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	p := &replica{Process: child, output: out}
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.Done
		if t.Failed() {
			t.Logf("process %d, console %s, wrote:\n%s", p.Cmd.Process.Pid, strings.Join(args, " "), p.output)
		}
	})
	return p
}

// serve starts `console serve` and waits until it listens.
func serve(t *testing.T, vars map[string]string, args ...string) *replica {
	t.Helper()
	p := start(t, vars, nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--machine-listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	eventually(t, "serve listens", func() bool {
		var line struct{ Msg, Public, Machine string }
		for l := range p.lines() {
			if json.Unmarshal([]byte(l), &line) == nil && line.Msg == "listening" {
				p.public, p.machine = "http://"+line.Public, "http://"+line.Machine
			}
		}
		return p.public != "" || p.hasEnded()
	})
	if p.hasEnded() {
		t.Fatalf("serve ended with code %d:\n%s", p.code(), p.output)
	}
	return p
}

// code is the exit code, once it has ended.
func (p *replica) code() int { return p.Cmd.ProcessState.ExitCode() }

func (p *replica) signal(s syscall.Signal) { p.Cmd.Process.Signal(s) }

// freeze stops every thread of the process, and returns when they stand still: the signal alone takes its time.
func (p *replica) freeze(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	threads := fmt.Sprintf("/proc/%d/task/*/stat", p.Cmd.Process.Pid)
	eventually(t, "every thread is stopped", func() bool {
		list, err := filepath.Glob(threads)
		for _, file := range list {
			stat, err := os.ReadFile(file)
			if _, after, _ := bytes.Cut(stat, []byte(") ")); err == nil && !bytes.HasPrefix(after, []byte("T")) {
				return false
			}
		}
		return err == nil && len(list) > 0
	})
}

func (p *replica) hasEnded() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// wait waits for the end and returns the exit code.
func (p *replica) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.Done:
		return p.code()
	case <-time.After(patience):
		t.Fatalf("after %v the process has still not ended", patience)
		return 0
	}
}

// ownerLike is the SQL pattern of what this process writes as claim_owner.
func (p *replica) ownerLike() string { return fmt.Sprintf("%%/%d/%%", p.Cmd.Process.Pid) }

// answer is what a page or probe said.
type answer struct {
	status int
	body   string
}

// get asks url under the name host, or url's own; a process that does not answer is status 0.
func get(ctx context.Context, url, host string) answer {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{body: err.Error()}
	}
	r.Host = host
	r.Close = true // a kept connection would hold up a server that is being stopped
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{response.StatusCode, string(body)}
}

// ready waits until the process admits work.
func (p *replica) ready(t *testing.T) {
	t.Helper()
	eventually(t, "/readyz is 200", func() bool { return get(t.Context(), p.machine+"/readyz", "").status == http.StatusOK })
}

// metrics are the values of the process's metrics by name and labels, such as `name{label="value"}`.
func (p *replica) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	got := get(t.Context(), p.machine+"/metrics", "")
	if got.status != http.StatusOK {
		t.Fatalf("/metrics = %+v", got)
	}
	m := map[string]float64{}
	for l := range strings.Lines(got.body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), " "); ok && name != "#" {
			m[name], _ = strconv.ParseFloat(value, 64) // the text format's own numbers
		}
	}
	return m
}

// lines are the lines that the process has written so far.
func (p *replica) lines() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for s := bufio.NewScanner(strings.NewReader(p.output.String())); s.Scan() && yield(s.Text()); {
		}
	}
}

// postgresBin hands the choice of a server on to `console dev`.
func postgresBin() map[string]string {
	return map[string]string{"CONSOLE_POSTGRES_BIN": os.Getenv(pgtest.BinVariable)}
}
