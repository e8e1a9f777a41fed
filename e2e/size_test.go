package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	sizeSchedules = 10_000
	sizeStarts    = 5
	sizeIdle      = 30 * time.Second // how long a replica has nothing to do before its memory is read
)

// BenchmarkSize starts a replica with all its parts beside ten thousand Schedules of which none is due, and says when it was ready, how much
// memory it has after a while of that, and how large the program is.
func BenchmarkSize(b *testing.B) {
	binary, err := console()
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(binary)
	if err != nil {
		b.Fatal(err)
	}
	vars, super := durable(b)
	maps.Copy(vars, pagesVariables(b))
	run(b, vars, burstManifest(sizeSchedules), "apply", "-f", "-")
	pgtest.Exec(b, super, "UPDATE ql3.trigger_schedules SET next_fire_at_ms = 4102444800000")
	pgtest.Exec(b, super, "VACUUM ANALYZE")
	var ready []time.Duration
	for range sizeStarts {
		r, took := readyIn(b, binary, vars)
		ready = append(ready, took)
		r.kill()
	}
	slices.Sort(ready)
	r, _ := readyIn(b, binary, vars)
	<-time.After(sizeIdle)
	resident, peak := memory(b, r.Cmd.Process.Pid, "VmRSS"), memory(b, r.Cmd.Process.Pid, "VmHWM")
	fmt.Printf("ready in %v; resident %d MB after %v, at most %d MB; load average %s\n", ready, resident>>20, sizeIdle, peak>>20, loadAverage(b))
	fmt.Printf("size: ready=%dms rss=%dMB binary=%dMB\n", ready[len(ready)/2].Milliseconds(), resident>>20, info.Size()>>20)
}

// readyIn starts a replica and measures how long it takes until it says that it is ready.
func readyIn(t testing.TB, binary string, vars map[string]string) (*replica, time.Duration) {
	t.Helper()
	begun := time.Now()
	r := &replica{program: start(t, command(binary, vars, "serve", "--listen", "127.0.0.1:0", "--machine-listen", "127.0.0.1:0", "--log-format", "json"))}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; !r.isReady(t); <-tick.C {
		if time.Since(begun) > patience {
			t.Fatalf("a replica was not ready after %v", patience)
		}
	}
	return r, time.Since(begun)
}

// memory is what Linux says of a process's memory, in bytes.
func memory(t testing.TB, pid int, what string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n"+what+":")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 || fields[1] != "kB" {
		t.Fatalf("/proc/%d/status does not say its %s in kB", pid, what)
	}
	kilobytes, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
