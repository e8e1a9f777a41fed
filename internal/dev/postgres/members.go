package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qinglong/console/internal/process"
)

// A member is a running process of this cluster's server. Its handle stays with that
// process even when the number is given to another.
type member struct {
	*os.Process
	postmaster bool
}

// members finds the processes by what anyone may read: they run as the account and
// their command lines name the data directory (the postmaster) or the cluster (its
// children). A zombie has no command line and is none.
func (c *cluster) members() ([]member, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []member
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !c.ownsProcess(pid) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return nil, err
		}
		// Only now: whatever this says is said of p, or p has ended.
		postmaster, child := c.recognise(pid)
		if !postmaster && !child {
			_ = p.Release()
			continue
		}
		found = append(found, member{p, postmaster})
	}
	return found, nil
}

func (c *cluster) ownsProcess(pid int) bool {
	info, err := os.Stat(procPath(pid))
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == c.account.uid
}

func (c *cluster) recognise(pid int) (postmaster, child bool) {
	b, err := os.ReadFile(filepath.Join(procPath(pid), "cmdline"))
	if err != nil {
		return false, false
	}
	if bytes.HasPrefix(b, []byte("postgres: "+c.name()+": ")) {
		return false, true
	}
	args := strings.Split(string(b), "\x00")
	at := slices.Index(args, "-D")
	return filepath.Base(args[0]) == "postgres" && at > 0 && at+1 < len(args) && args[at+1] == c.data, false
}

func procPath(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// clearRemains ends what an earlier server left running, so that the next one has
// the data to itself. The lock is held, so whatever runs has lost its keeper.
func (c *cluster) clearRemains(ctx context.Context) error {
	left, err := c.members()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintf(c.log, "console: ending the PostgreSQL server that a process now gone left in %s\n", c.dir)
		if err := c.endMembers(ctx, left); err != nil {
			return err
		}
	}
	return c.removeStalePIDFile()
}

func (c *cluster) endMembers(ctx context.Context, left []member) error {
	for _, m := range left {
		if m.postmaster {
			_ = m.Signal(syscall.SIGINT) // it may have ended by now
		}
	}
	if c.gone(ctx, 10*time.Second) == nil {
		return nil
	}
	left, err := c.members()
	if err != nil {
		return err
	}
	for _, m := range left {
		_ = m.Kill()
	}
	return c.gone(ctx, process.Kill.Patience)
}

// gone waits until the cluster has no member.
func (c *cluster) gone(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := c.members()
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d of an earlier server does not end", left[0].Pid)
		case <-tick.C:
		}
	}
}

// removeStalePIDFile removes the file when the number in it lives on as something
// else, a zombie or a stranger: the server would take that for its predecessor and
// refuse to start. Any other stale file it clears up itself, with checks of its own.
func (c *cluster) removeStalePIDFile() error {
	b, err := os.ReadFile(c.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if _, err := os.Stat(filepath.Join("/proc", line)); err != nil {
		return nil
	}
	return os.Remove(c.pidFile())
}

// killMembers kills the postmaster and its children. Stopped first, the postmaster
// can neither fork nor tidy up in between.
func (c *cluster) killMembers(postmaster *process.Process) error {
	_ = postmaster.Cmd.Process.Signal(syscall.SIGSTOP)
	all, err := c.members()
	if err != nil {
		return errors.Join(err, postmaster.End(process.Kill))
	}
	for _, m := range all {
		_ = m.Kill()
	}
	if err := postmaster.End(process.Kill); err != nil {
		return err
	}
	return c.gone(context.Background(), process.Kill.Patience)
}
