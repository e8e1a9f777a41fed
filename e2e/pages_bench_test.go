package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/bench"
	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	// viewed is how often each page is asked for, one after the other: enough for a 95th percentile.
	viewed = 200
	// crowded is how long, and by how many at once, lists are asked for to see how many pages a second there are.
	crowded = 10 * time.Second
	few     = 4
	many    = 16

	pagesRuns       = "PAGES_RUNS"    // how many Runs there are, by default a million
	riverUIVariable = "PAGES_RIVERUI" // where its program is; .ci/setup --print-peers says it
)

// A visitor asks as a browser behind a trusted proxy does, always on the same few connections.
type visitor struct {
	client  *http.Client
	origin  string // of the replica
	session *http.Cookie
}

func newVisitor(origin string) *visitor {
	return &visitor{origin: origin, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: many, DisableCompression: true}, Timeout: time.Minute}}
}

// An answered request. Its body is as it went over the wire.
type answered struct {
	status  int
	zipped  bool
	body    []byte
	cookies []*http.Cookie
}

func (v *visitor) ask(t testing.TB, path, accept string) answered {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, v.origin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser(request, "visitor", accept)
	request.Header.Set("Accept-Encoding", "gzip")
	if v.session != nil {
		request.AddCookie(v.session)
	}
	response, err := v.client.Do(request)
	if err != nil {
		t.Error(err)
		return answered{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return answered{response.StatusCode, response.Header.Get("Content-Encoding") == "gzip", body, response.Cookies()}
}

// signIn begins a session, which the proxy's word is enough for.
func (v *visitor) signIn(t testing.TB) {
	t.Helper()
	for _, c := range v.ask(t, "/runs", "text/html").cookies {
		if strings.HasSuffix(c.Name, "_session") {
			v.session = c
		}
	}
	if v.session == nil {
		t.Fatal("no session began")
	}
}

// page asks for one that must be there, and must hold what only the real one does. It returns what went over the wire.
func (v *visitor) page(t testing.TB, x target) (wire int) {
	t.Helper()
	got := v.ask(t, x.path, x.accept)
	plain := got.body
	if got.zipped {
		zr, err := gzip.NewReader(bytes.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err = io.ReadAll(zr); err != nil {
			t.Fatal(err)
		}
	}
	if got.status != http.StatusOK || !bytes.Contains(plain, []byte(x.holds)) {
		t.Fatalf("%s is %d and has %d bytes, in which there should be %q", x.path, got.status, len(plain), x.holds)
	}
	return len(got.body)
}

// BenchmarkPages asks one replica beside a million Runs for its main pages, as a viewer of every Project, and says how
// long one takes, what it weighs and how many there are in a second. It fails if a page is not the one that was meant.
func BenchmarkPages(b *testing.B) {
	program, err := console()
	if err != nil {
		b.Fatal(err)
	}
	server := durableServer(b, nil)
	vars, super := install(b, server, "postgres"), superOf(b, server, "postgres")
	if err := bench.Seed(b.Context(), super, bench.Size{Projects: 100, Schedules: 10_000, Runs: fromEnv(b, pagesRuns, 1_000_000)}, func(int) {}); err != nil {
		b.Fatal(err)
	}
	pgtest.Exec(b, super, "VACUUM ANALYZE")
	maps.Copy(vars, pagesVariables(b))
	r := serve(b, program, vars)
	v := newVisitor(r.public())
	v.signIn(b)
	pgtest.Exec(b, super, viewerOfAll)
	for b.Loop() {
		measurePeer(b, server)
		measurePages(b, r, v, super)
	}
}

// viewerOfAll lets whoever has signed in see every Project.
const viewerOfAll = `INSERT INTO ql3.project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms)
	SELECT p.id, u.id, 1, 'viewer', gen_random_uuid(), 'bench', 1 FROM ql3.projects p CROSS JOIN ql3.users u`

// load asks for targets by turns, crowd at a time, until it is stopped, and then says how many answers there were.
func (v *visitor) load(b *testing.B, crowd int, targets []target) (stop func() int64) {
	b.Helper()
	var n atomic.Int64
	var stopped atomic.Bool
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			for at := i; !stopped.Load(); at++ {
				x := targets[at%len(targets)]
				if status := v.ask(b, x.path, x.accept).status; status != http.StatusOK {
					b.Errorf("%s is %d", x.path, status)
					return
				}
				n.Add(1)
			}
		})
	}
	return func() int64 {
		stopped.Store(true)
		all.Wait()
		return n.Load()
	}
}

// A target is a page that is measured, and what only it holds.
type target struct{ name, path, accept, holds string }

func pagesAt(paths ...string) (list []target) {
	for _, path := range paths {
		list = append(list, target{path: path, accept: "text/html"})
	}
	return list
}

func targetsOf(b *testing.B, super *pgxpool.Pool) []target {
	b.Helper()
	run := pgtest.Value[uuid.UUID](b, super, "SELECT id FROM ql3.runs WHERE project_id = 'load-0001' ORDER BY created_at_ms DESC LIMIT 1").String()
	task := pgtest.Value[string](b, super, "SELECT task_id FROM ql3.runs WHERE id = $1", run)
	trigger := pgtest.Value[string](b, super, "SELECT trigger_id FROM ql3.triggers WHERE project_id = 'load-0001' ORDER BY trigger_id LIMIT 1")
	const page, data = "text/html", "application/json"
	return []target{
		{"overview", "/", page, "<svg"},
		{"Runs", "/runs", page, "load-"},
		{"Runs, of one Project", "/runs?project=load-0001", page, "load-0001"},
		{"Runs, failed", "/runs?status=failed", page, "load-"},
		{"Runs, of one Task", "/runs?project=load-0001&task=" + task, page, task},
		{"Runs, as JSON", "/runs", data, `"runs"`},
		{"Run", "/runs/" + run, page, run},
		{"Run, as JSON", "/runs/" + run, data, run},
		{"Schedules", "/schedules", page, "load-"},
		{"Schedule", "/schedules/load-0001/" + trigger, page, trigger},
		{"claims", "/claims", page, "</html>"},
		{"search", "/search?q=load-0001", page, "load-0001"},
	}
}

func measurePages(b *testing.B, r *replica, v *visitor, super *pgxpool.Pool) {
	b.Helper()
	var all []time.Duration
	most := 0
	fmt.Printf("\n%10s %10s %10s %12s  %s\n", "p50", "p95", "bytes", "allocated", "page")
	for _, x := range targetsOf(b, super) {
		before := r.metric(b, allocatedBytes)
		took, wire := v.timed(b, x)
		fmt.Printf("%10s %10s %10d %12.0f  %s\n", rounded(percentile(took, 50)), rounded(percentile(took, 95)), wire, (r.metric(b, allocatedBytes)-before)/viewed, x.name)
		all, most = append(all, took...), max(most, wire)
	}
	slices.Sort(all)
	fmt.Printf("load average %s\n", loadAverage(b))
	var lists []target // of as many Projects
	for i := range many {
		id := fmt.Sprintf("load-%04d", i+1)
		lists = append(lists, target{"", "/runs?project=" + id, "text/html", id})
	}
	v.perSecond(b, few, lists[:1], "of one list")
	v.perSecond(b, many, lists, "of different lists")
	rps := v.perSecond(b, many, lists[:1], "of one list")
	fmt.Printf("pages: p95=%s rps=%.0f bytes=%d\n", rounded(percentile(all, 95)), rps, most)
}

// measurePeer asks River's console for what its pages ask it for, over as many jobs.
func measurePeer(b *testing.B, server *postgres.Server) {
	b.Helper()
	peer := os.Getenv(riverUIVariable)
	if peer == "" {
		b.Fatalf("%s is not set: make bench-pages sets it", riverUIVariable)
	}
	pgtest.Exec(b, superOf(b, server, "postgres"), "CREATE DATABASE river")
	p := start(b, command(peer, nil, strconv.Itoa(fromEnv(b, pagesRuns, 1_000_000)), server.URL(server.Superuser(), "river")))
	defer p.kill()
	for !strings.HasPrefix(p.output.String(), "http://") { // it has a million jobs to make first
		p.mustRun(b)
		<-time.After(time.Second)
	}
	v := newVisitor(strings.TrimSpace(p.output.String()))
	id := pgtest.Value[int64](b, superOf(b, server, "river"), "SELECT max(id) FROM river_job")
	fmt.Printf("\n%10s %10s %10s  %s\n", "p50", "p95", "bytes", "call of River's console")
	for _, x := range []target{
		{"jobs that are done", "/api/jobs?state=completed&limit=50", "application/json", `"completed"`},
		{"jobs that have failed", "/api/jobs?state=discarded&limit=50", "application/json", `"discarded"`},
		{"jobs of a kind", "/api/jobs?state=completed&limit=50&kinds=occurrence-7", "application/json", "occurrence-7"},
		{"job", fmt.Sprintf("/api/jobs/%d", id), "application/json", strconv.FormatInt(id, 10)},
		{"counts by state", "/api/states", "application/json", "completed"},
		{"queues", "/api/queues?limit=20", "application/json", ""},
	} {
		took, wire := v.timed(b, x)
		fmt.Printf("%10s %10s %10d  %s\n", rounded(percentile(took, 50)), rounded(percentile(took, 95)), wire, x.name)
	}
	done := []target{{"", "/api/jobs?state=completed&limit=50", "application/json", `"completed"`}}
	v.perSecond(b, few, done, "of jobs that are done, as JSON")
	v.perSecond(b, many, done, "of jobs that are done, as JSON")
}

const allocatedBytes = "go_memstats_alloc_bytes_total"

// timed asks for x again and again, and returns how long each took, in ascending order, and what went over the wire for one.
func (v *visitor) timed(b *testing.B, x target) (took []time.Duration, wire int) {
	b.Helper()
	wire = v.page(b, x)
	for range viewed {
		began := time.Now()
		if status := v.ask(b, x.path, x.accept).status; status != http.StatusOK {
			b.Fatalf("%s is %d", x.path, status)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, wire
}

// perSecond prints and returns how many answers a second there are when a crowd asks at once.
func (v *visitor) perSecond(b *testing.B, crowd int, targets []target, what string) float64 {
	b.Helper()
	for _, x := range targets {
		v.page(b, x)
	}
	began, stop := time.Now(), v.load(b, crowd, targets)
	<-time.After(crowded)
	rate := float64(stop()) / time.Since(began).Seconds()
	fmt.Printf("%.0f a second %s, for %d who ask at once\n", rate, what, crowd)
	return rate
}

// percentile of what is in ascending order.
func percentile[T any](sorted []T, percent int) T { return sorted[(len(sorted)*percent+99)/100-1] }

// rounded rounds a time for a table.
func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
