package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
)

const (
	stderrKept   = 4 << 10                // bytes of the end of stderr
	stderrDrain  = 200 * time.Millisecond // for what is still in the pipe when everybody is dead
	summaryLimit = 500                    // runes
	redacted     = "[redacted]"
	shortValue   = 4 // shorter environment values are no secrets, and would blank half of a message
)

// stopped is the outcome of a Run in hand when this process was told to end.
var stopped = run.Outcome{Status: run.Failed, Code: "executor_stopped", Summary: "console dev was stopped before the command had ended"}

// command runs the plan's command and says how it ended. When the timeout is over, or ctx ends, its whole process group
// is terminated, and killed if it does not go within grace.
func command(ctx context.Context, plan catalog.Execution, grace time.Duration) run.Outcome {
	timeout, cancel := context.WithTimeout(ctx, plan.Timeout())
	defer cancel()
	cmd := exec.CommandContext(timeout, plan.Command[0], plan.Command[1:]...)
	cmd.Dir = plan.WorkingDirectory
	cmd.Env = environment(plan.Env)
	cmd.WaitDelay = grace
	stderr, err := runGroup(cmd)
	return outcome(ctx, timeout, err, cmd, stderr.lastLine(plan.Env))
}

// runGroup runs cmd in a process group of its own, of which nothing is left when cmd has ended, and returns the end of
// what the group wrote to stderr.
func runGroup(cmd *exec.Cmd) (*tail, error) {
	stderr := &tail{most: stderrKept}
	read, write, err := os.Pipe()
	if err != nil {
		return stderr, err
	}
	defer read.Close()
	cmd.Stderr = write // a file: for any other writer Wait would wait until all of the group has closed it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err = cmd.Start()
	write.Close()
	if err != nil {
		return stderr, err
	}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(stderr, read) })
	err = cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	read.SetReadDeadline(time.Now().Add(stderrDrain)) // who has left the group may hold it for ever
	reading.Wait()
	return stderr, err
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
	case errors.Is(context.Cause(ctx), errCancelled):
		o.Status, o.Code = run.Cancelled, "cancelled"
	case ctx.Err() != nil:
		o.Code, o.Summary = stopped.Code, stopped.Summary
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
	slices.Sort(list)
	return list
}

// redact blanks the values of the Task's environment in line. If the beginning of line was cut off, it may begin with the
// end of a value.
func redact(line string, cut bool, vars map[string]string) string {
	values := parts(vars)
	if cut {
		line = dropEnd(line, values)
	}
	for _, value := range values {
		line = strings.ReplaceAll(line, value, redacted)
	}
	return catalog.Redact(line, redacted)
}

// parts lists the lines of the values that are worth hiding, the longest first: one value may contain another.
func parts(vars map[string]string) (list []string) {
	for _, value := range vars {
		for part := range strings.SplitSeq(value, "\n") {
			if part = strings.TrimSpace(part); len(part) >= shortValue {
				list = append(list, part)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return list
}

// dropEnd replaces the longest end of a value that line begins with.
func dropEnd(line string, values []string) string {
	longest := shortValue - 1
	for _, value := range values {
		for n := min(len(value)-1, len(line)); n > longest; n-- {
			if line[:n] == value[len(value)-n:] {
				longest = n
			}
		}
	}
	if longest < shortValue {
		return line
	}
	return redacted + line[longest:]
}

// showable makes line fit to show: valid, of graphic characters, and not too long.
func showable(line string) string {
	line = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' ' // control characters, and what turns the direction of text
	}, strings.ToValidUTF8(line, "\uFFFD")))
	if runes := []rune(line); len(runes) > summaryLimit {
		return string(runes[:summaryLimit-1]) + "…"
	}
	return line
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	kept []byte
	cut  bool // something came before
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	return len(p), nil
}

// lastLine is the last line that is not blank, fit to show and without the values of vars.
func (t *tail) lastLine(vars map[string]string) string {
	text := strings.TrimRightFunc(string(t.kept), unicode.IsSpace)
	start := strings.LastIndexByte(text, '\n') + 1
	return showable(redact(text[start:], t.cut && start == 0, vars))
}
