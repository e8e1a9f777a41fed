//go:build torture

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A member is one place in the cluster: the replica that is there now, and those that were.
type member struct {
	name    string
	skew    time.Duration
	program string
	vars    map[string]string
	link    *link

	mu    sync.Mutex
	now   *replica
	lives []*replica
	pages string // where its pages are, or were last
}

// newMember starts a replica with a clock that is wrong by skew.
func newMember(t testing.TB, name string, skew time.Duration, d *database, pages map[string]string) *member {
	t.Helper()
	program, err := console()
	if skew != 0 {
		program, err = shifted()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := d.url(t).Host
	m := &member{name: name, skew: skew, program: program, vars: maps.Clone(pages), link: newLink(t, name, address)}
	m.vars[clockShift] = skew.String()
	for variable, value := range d.vars {
		m.vars[variable] = strings.Replace(value, address, m.link.address, 1)
	}
	if err := m.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.now.kill() })
	eventually(t, name+" is ready", func() bool { return m.now.isReady(t) })
	return m
}

// begin begins another life. It waits until the replica listens, for which it needs no database.
func (m *member) begin() error {
	p, err := launch(serving(m.program, m.vars, "--claim-lease", tortureLease.String(), "--database-deadline", "2s", "--cadence", "200ms",
		"--misfire-grace", tortureGrace.String()))
	if err != nil {
		return err
	}
	r := &replica{program: p}
	m.mu.Lock()
	m.now, m.lives = r, append(m.lives, r)
	m.mu.Unlock()
	for deadline := time.Now().Add(patience); r.public() == ""; <-time.After(20 * time.Millisecond) {
		if err := m.lives[len(m.lives)-1].ended(); err != nil || time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen: %v\n%s", m.name, err, r.output)
		}
	}
	m.mu.Lock()
	m.pages = r.public()
	m.mu.Unlock()
	return nil
}

// ended says how a replica ended that nobody has ended.
func (r *replica) ended() error {
	select {
	case <-r.Done:
		return fmt.Errorf("it ended by itself: %w", r.Err())
	default:
		return nil
	}
}

func (m *member) address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pages
}

// suffer carries out a fault of the replica or of its network. It ends with the replica running.
func (m *member) suffer(s move) error {
	if err := m.now.ended(); err != nil {
		return fmt.Errorf("%s: %w\n%s", m.name, err, m.now.output)
	}
	switch s.Do {
	case doKill:
		m.now.kill()
		<-time.After(s.For)
		return m.begin()
	case doFreeze:
		m.now.freeze()
		<-time.After(s.For)
		m.now.thaw()
		return nil
	}
	return m.link.suffer(s)
}

// stop asks the replica to stop, which it must do by itself, and in order.
func (m *member) stop() error {
	if err := m.now.ended(); err != nil {
		return fmt.Errorf("%s: %w\n%s", m.name, err, m.now.output)
	}
	m.now.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.now.Done:
	case <-time.After(patience):
		return fmt.Errorf("%s does not stop\n%s", m.name, m.now.output)
	}
	if err := m.now.Err(); err != nil {
		return fmt.Errorf("%s did not stop in order: %w\n%s", m.name, err, m.now.output)
	}
	return nil
}
