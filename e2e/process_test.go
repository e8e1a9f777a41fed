package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; what is waited for comes much sooner.
const patience = 60 * time.Second

// eventually waits until ok holds, looking every few milliseconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// A process runs until its test ends, which kills it, or until it ends by itself.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	output *output
}

// start starts cmd and returns at once.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{}), output: &output{}}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that forked ends: keep it as long as the child
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s (process %d) wrote:\n%s", filepath.Base(cmd.Path), cmd.Process.Pid, p.output)
		}
	})
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// mustRun fails the test if p has ended.
func (p *process) mustRun(t testing.TB) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("%s ended with code %d:\n%s", filepath.Base(p.cmd.Path), p.cmd.ProcessState.ExitCode(), p.output)
	default:
	}
}

// A replica is one running `console serve`.
type replica struct {
	*process
	machine string // http://ADDRESS of its machine listener
}

// command prepares program with the environment vars and nothing else.
func command(program string, vars map[string]string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run runs one command of the console, which must succeed.
func run(t testing.TB, vars map[string]string, stdin string, args ...string) {
	t.Helper()
	program, err := console()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(program, vars, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("console %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// serve starts `console serve` of program and waits until it is ready. It is killed when the test ends.
func serve(t testing.TB, program string, vars map[string]string, args ...string) *replica {
	t.Helper()
	args = append([]string{"serve", "--machine-listen", "127.0.0.1:0", "--log-format", "json"}, args...)
	if vars["CONSOLE_LISTEN"] == "" {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	r := &replica{process: start(t, command(program, vars, args...))}
	eventually(t, "serve is ready", func() bool { return r.isReady(t) })
	return r
}

func (r *replica) isReady(t testing.TB) bool {
	t.Helper()
	r.mustRun(t)
	if r.machine == "" {
		r.machine = r.output.listener()
		return false
	}
	status, _ := r.get(t, "/readyz")
	return status == http.StatusOK
}

// get asks the machine listener.
func (r *replica) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(r.machine + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// metric is the value of a metric without labels.
func (r *replica) metric(t testing.TB, name string) float64 {
	t.Helper()
	_, body := r.get(t, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return v
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// actor matches what this replica calls itself in the tables, for LIKE.
func (r *replica) actor() string { return fmt.Sprintf("%%/%d/%%", r.cmd.Process.Pid) }

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// listener is where the log says that the machine listener is, or "".
func (o *output) listener() string {
	decoder := json.NewDecoder(strings.NewReader(o.String()))
	for {
		var line struct{ Msg, Machine string }
		err := decoder.Decode(&line)
		if err == nil && line.Msg == "listening" {
			return "http://" + line.Machine
		}
		if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
			return ""
		}
	}
}
