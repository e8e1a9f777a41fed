// Package process starts children that do not outlive the process that started them, whatever becomes of it, and that
// are always waited for.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Process is a child.
type Process struct {
	Cmd  *exec.Cmd
	Done <-chan struct{} // closed when it has ended

	err error
}

// Start starts cmd and waits for it in the background. When the process that called Start ends first, the kernel sends
// the child orphaned; 0 sends nothing.
//
// The kernel sends that signal when the *thread* that forked ends (prctl(2), PR_SET_PDEATHSIG), which a Go program's
// threads do at any time. So one goroutine keeps one thread for as long as the child lives.
func Start(cmd *exec.Cmd, orphaned syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = orphaned
	done := make(chan struct{})
	p := &Process{Cmd: cmd, Done: done}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Err waits for the end and says how it ended, as [exec.Cmd.Wait] does.
func (p *Process) Err() error {
	<-p.Done
	return p.err
}

// Wait returns how the process ended; it kills it when ctx is done first.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.Done:
		return p.err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.End(Kill))
	}
}

// A Step asks a process to end, and says for how long to wait before asking harder.
type Step struct {
	Signal   syscall.Signal
	Patience time.Duration
}

// Kill is the last step.
var Kill = Step{syscall.SIGKILL, 10 * time.Second}

// End takes the steps in turn until the process has ended.
func (p *Process) End(steps ...Step) error {
	for _, s := range steps {
		// It may have ended meanwhile; Done says so.
		_ = p.Cmd.Process.Signal(s.Signal)
		select {
		case <-p.Done:
			return nil
		case <-time.After(s.Patience):
		}
	}
	return fmt.Errorf("process %d does not end", p.Cmd.Process.Pid)
}

// An Output is everything a child has written so far; it may be read while more is written.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
