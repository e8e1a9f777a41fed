package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

var errExitedZero = errors.New("exit status 0")

// A process is a child that is always waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read only after done is closed
}

// spawn starts cmd and waits for it in the background.
//
// The kernel sends a parent-death signal when the *thread* that forked ends, which
// a Go program's threads do at any time. So one goroutine keeps one thread for as
// long as the child lives.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// wait returns how the process ended; it kills it when ctx is done first.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.end(lastStep))
	}
}

// A step asks a process to end, and says for how long to wait before asking harder.
type step struct {
	signal   syscall.Signal
	patience time.Duration
}

var lastStep = step{syscall.SIGKILL, 10 * time.Second}

// end takes the steps in turn until the process has ended.
func (p *process) end(steps ...step) error {
	for _, s := range steps {
		// It may have ended meanwhile; done says so.
		_ = p.cmd.Process.Signal(s.signal)
		select {
		case <-p.done:
			return nil
		case <-time.After(s.patience):
		}
	}
	return fmt.Errorf("process %d does not end", p.cmd.Process.Pid)
}

// A tail passes on what a process writes and remembers the end of it, so that a
// failure can be explained although nobody kept the log.
type tail struct {
	mu   sync.Mutex
	last []byte
	next io.Writer // may be nil
}

const tailSize = 4 << 10 // bytes

// Write never fails: a child must not block because its log has nowhere to go.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-tailSize):]
	if t.next != nil {
		_, _ = t.next.Write(b)
	}
	return len(b), nil
}

// explain adds the last lines written to err.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := bytes.TrimSpace(t.last)
	if len(said) == 0 {
		return err
	}
	return fmt.Errorf("%w; its last words:\n%s", err, said)
}
