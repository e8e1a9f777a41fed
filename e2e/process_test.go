package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/qinglong/console/internal/process"
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

// A program runs until its test ends, which kills it, or until it ends by itself.
type program struct {
	*process.Process
	output *process.Output
}

// launch starts cmd and returns at once. Whoever calls it ends it.
func launch(cmd *exec.Cmd) (*program, error) {
	out := &process.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	child, err := process.Start(cmd, syscall.SIGKILL)
	return &program{child, out}, err
}

// start starts cmd and returns at once.
func start(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p, err := launch(cmd)
	if err != nil {
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

func (p *program) kill() {
	p.Cmd.Process.Kill()
	<-p.Done
}

// cpu is the time that p, which has ended, has used.
func (p *program) cpu() time.Duration {
	return p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()
}

// mustRun fails the test if p has ended.
func (p *program) mustRun(t testing.TB) {
	t.Helper()
	select {
	case <-p.Done:
		t.Fatalf("%s ended with code %d:\n%s", filepath.Base(p.Cmd.Path), p.Cmd.ProcessState.ExitCode(), p.output)
	default:
	}
}

// A replica is one running `console serve`.
type replica struct {
	*program
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
	finish(t, "console "+strings.Join(args, " "), cmd)
}

// finish runs cmd to its end, which must be a success; what names it for a reader.
func finish(t testing.TB, what string, cmd *exec.Cmd) *program {
	t.Helper()
	p := start(t, cmd)
	if err := p.Err(); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, p.output)
	}
	return p
}

// serve starts `console serve` of program and waits until it is ready. It is killed when the test ends.
func serve(t testing.TB, program string, vars map[string]string, args ...string) *replica {
	t.Helper()
	r := &replica{program: start(t, serving(program, vars, args...))}
	eventually(t, "serve is ready", func() bool { return r.isReady(t) })
	return r
}

// serving prepares `console serve` of program, on free ports unless vars say otherwise.
func serving(program string, vars map[string]string, args ...string) *exec.Cmd {
	args = append([]string{"serve", "--machine-listen", "127.0.0.1:0", "--log-format", "json"}, args...)
	if vars["CONSOLE_LISTEN"] == "" {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	return command(program, vars, args...)
}

func (r *replica) isReady(t testing.TB) bool {
	t.Helper()
	r.mustRun(t)
	if r.machine == "" {
		r.machine = r.listener()
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
func (r *replica) actor() string { return fmt.Sprintf("%%/%d/%%", r.Cmd.Process.Pid) }

// listener is where the log says that the machine listener is, or "".
func (r *replica) listener() string {
	decoder := json.NewDecoder(strings.NewReader(r.output.String()))
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
