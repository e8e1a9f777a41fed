package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// A measure is what one measurement found.
type measure struct {
	name      string
	count     int
	elapsed   time.Duration
	client    time.Duration // CPU of the replicas
	server    time.Duration // CPU of the database
	rollbacks int64
}

func (m measure) perSecond() int { return int(float64(m.count) / m.elapsed.Seconds()) }

func (m measure) String() string {
	return fmt.Sprintf("%-20s %6d in %6.2f s  %6d/s   cpu: clients %5.2f s, database %5.2f s   rolled back %d",
		m.name, m.count, m.elapsed.Seconds(), m.perSecond(), m.client.Seconds(), m.server.Seconds(), m.rollbacks)
}

// median is the median of what was measured under a name, in occurrences a second, and 0 if nothing was.
func median(all []measure, name string) int {
	var rates []int
	for _, m := range all {
		if m.name == name {
			rates = append(rates, m.perSecond())
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// during is the CPU that do takes, of the processes pids and of the server, and how many transactions are rolled back.
func (x *burst) during(t testing.TB, c copied, pids []int, do func()) (m measure) {
	t.Helper()
	const rolledBack = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
	client, server, rollbacks := cpu(t, pids), x.serverCPU(t), pgtest.Value[int64](t, c.super, rolledBack)
	do()
	m.client, m.server = cpu(t, pids)-client, x.serverCPU(t)-server
	m.rollbacks = pgtest.Value[int64](t, c.super, rolledBack) - rollbacks
	return m
}

// serverCPU is the time that the server's processes have used, those included that have ended.
func (x *burst) serverCPU(t testing.TB) time.Duration {
	t.Helper()
	backend := pgtest.Value[int](t, x.super, "SELECT pg_backend_pid()")
	postmaster := readStat(t, strconv.Itoa(backend)).parent
	total := time.Duration(0)
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		s := readStat(t, filepath.Base(filepath.Dir(path)))
		switch {
		case s.pid == postmaster:
			total += s.own + s.children
		case s.parent == postmaster:
			total += s.own
		}
	}
	return total
}

// cpu is the time that processes have used.
func cpu(t testing.TB, pids []int) (total time.Duration) {
	t.Helper()
	for _, pid := range pids {
		total += readStat(t, strconv.Itoa(pid)).own
	}
	return total
}

// A stat is what Linux says of a process.
type stat struct {
	pid, parent   int
	own, children time.Duration // what children used that have ended
}

// readStat reads the stat of a process, which is zero when there is none any more.
func readStat(t testing.TB, pid string) (s stat) {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	number := func(i int) int {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	s.pid, err = strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	s.parent = number(1)
	s.own = time.Duration(number(11)+number(12)) * tick
	s.children = time.Duration(number(13)+number(14)) * tick
	return s
}

func loadAverage(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

func pgxRow[T any](row pgx.CollectableRow) (T, error) { return pgx.RowToStructByPos[T](row) }
