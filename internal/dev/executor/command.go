package executor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
)

const (
	termGrace    = 5 * time.Second // between SIGTERM and SIGKILL
	stderrKept   = 4 << 10         // bytes of the end of stderr
	summaryLimit = 500             // runes
	redacted     = "[redacted]"
	shortValue   = 4 // shorter environment values are no secrets, and would blank half of a message
)

// command runs the plan's command in its own process group and says how it ended. When the timeout is over, or ctx
// ends, the whole group is terminated, and killed if it does not go.
func command(ctx context.Context, plan catalog.Execution) run.Outcome {
	timeout, cancel := context.WithTimeout(ctx, plan.Timeout())
	defer cancel()
	stderr := &tail{most: stderrKept}
	cmd := exec.CommandContext(timeout, plan.Command[0], plan.Command[1:]...)
	cmd.Dir = plan.WorkingDirectory
	cmd.Env = environment(plan.Env)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = termGrace
	err := cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left behind
	}
	return outcome(ctx, timeout, err, cmd, redact(stderr.lastLine(), plan.Env))
}

func outcome(ctx, timeout context.Context, err error, cmd *exec.Cmd, said string) run.Outcome {
	o := run.Outcome{Status: run.Failed, Summary: said}
	if code := exitCode(cmd); code >= 0 {
		o.ExitCode = &code
	}
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return run.Outcome{Status: run.Succeeded, ExitCode: o.ExitCode}
	case ctx.Err() != nil:
		o.Code, o.Summary = "executor_stopped", "console dev was stopped while the command ran"
	case timeout.Err() != nil:
		o.Status, o.Code = run.TimedOut, "timed_out"
	case exited && o.ExitCode != nil:
		o.Code = "exit_code"
	case exited:
		o.Code, o.Summary = "signalled", strings.TrimSpace(fmt.Sprintf("%v %s", cmd.ProcessState, said))
	default:
		o.Code, o.Summary = "not_started", "the command could not be started: "+startError(err)
	}
	return o
}

func exitCode(cmd *exec.Cmd) int {
	if cmd.ProcessState == nil {
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// startError keeps the reason and drops the command, which belongs into the proved preview alone.
func startError(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "no such program"
	}
	return "unknown error"
}

// environment is the Task's own and nothing of this process's.
func environment(vars map[string]string) []string {
	list := make([]string, 0, len(vars)) // not nil: nil would inherit
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// redact blanks the values of the Task's environment in line and makes it fit to show.
func redact(line string, vars map[string]string) string {
	for _, value := range vars {
		if len(value) >= shortValue {
			line = strings.ReplaceAll(line, value, redacted)
		}
	}
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, "\uFFFD"))
	if runes := []rune(line); len(runes) > summaryLimit {
		return string(runes[:summaryLimit-1]) + "…"
	}
	return line
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// lastLine is the last line that is not blank.
func (t *tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
