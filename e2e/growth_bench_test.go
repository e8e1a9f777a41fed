package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qinglong/console/internal/pg/pgtest"
)

const (
	growthMinutes = "GROWTH_MINUTES" // how long the replica runs, by default 30
	growthPages   = 4                // pages a second
	settled       = 5                // minutes until its memory is as it will stay
)

// BenchmarkGrowth has one replica admit what a thousand Triggers want, show its pages and keep one of them current, and
// says every minute what it uses. Whether that grows is for the reader to judge; it fails if a page or the stream does not come.
func BenchmarkGrowth(b *testing.B) {
	program, err := console()
	if err != nil {
		b.Fatal(err)
	}
	vars, super := durable(b)
	maps.Copy(vars, pagesVariables(b))
	run(b, vars, manifestOf(spread()), "apply", "-f", "-")
	r := serve(b, program, vars)
	v := newVisitor(r.public())
	v.signIn(b)
	pgtest.Exec(b, super, viewerOfAll)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var events, pages int
	readers.Go(func() { events = v.follow(b, "/runs", stop) })
	readers.Go(func() {
		pages = v.browse(b, pagesAt("/", "/runs", "/runs?status=failed", "/schedules", "/claims"), stop)
	})
	fmt.Printf("\n%8s %10s %10s %12s\n", "minute", "resident", "heap", "goroutines")
	var used []usage
	for minute := range fromEnv(b, growthMinutes, 30) {
		<-time.After(time.Minute)
		u := r.usage(b)
		used = append(used, u)
		fmt.Printf("%8d %10s %10s %12d\n", minute+1, megabytes(u.resident), megabytes(u.heap), u.goroutines)
	}
	close(stop)
	readers.Wait()
	first, last := used[min(settled, len(used))-1], used[len(used)-1]
	runs := pgtest.Value[int](b, super, "SELECT count(*) FROM ql3.runs")
	fmt.Printf("%d Runs, %d pages, %d fragments of one stream; load average %s\n", runs, pages, events, loadAverage(b))
	fmt.Printf("growth: rss=%s..%s heap=%s..%s goroutines=%d..%d minutes=%d..%d\n", megabytes(first.resident), megabytes(last.resident),
		megabytes(first.heap), megabytes(last.heap), first.goroutines, last.goroutines, min(settled, len(used)), len(used))
}

// usage is what a replica uses at one moment, in bytes.
type usage struct{ resident, heap, goroutines int }

func (r *replica) usage(b *testing.B) usage {
	b.Helper()
	return usage{memory(b, r.Cmd.Process.Pid, "VmRSS"), int(r.metric(b, "go_memstats_heap_inuse_bytes")), int(r.metric(b, "go_goroutines"))}
}

func megabytes(bytes int) string { return fmt.Sprintf("%.1fMB", float64(bytes)/(1<<20)) }

// browse asks for targets by turns, [growthPages] a second, until stop is closed, and returns how many it was given.
func (v *visitor) browse(b *testing.B, targets []target, stop <-chan struct{}) (n int) {
	tick := time.NewTicker(time.Second / growthPages)
	defer tick.Stop()
	for ; ; n++ {
		select {
		case <-stop:
			return n
		case <-tick.C:
		}
		x := targets[n%len(targets)]
		if status := v.ask(b, x.path, x.accept).status; status != http.StatusOK {
			b.Errorf("%s is %d", x.path, status)
			return n
		}
	}
}

// follow reads the stream of a page until stop is closed, and returns how many parts of it came.
func (v *visitor) follow(b *testing.B, path string, stop <-chan struct{}) (n int) {
	request, err := http.NewRequest(http.MethodGet, v.origin+path, nil)
	if err != nil {
		b.Error(err)
		return 0
	}
	fromBrowser(request, "visitor", "text/event-stream")
	request.AddCookie(v.session)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.Errorf("the stream of %s is %d", path, response.StatusCode)
		return 0
	}
	go func() {
		<-stop
		response.Body.Close() // ends the reading
	}()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		select {
		case <-stop:
			return n
		default:
		}
		if err != nil {
			b.Errorf("the stream of %s ended after %d parts: %v", path, n, err)
			return n
		}
		if strings.HasPrefix(line, "event: fragment") {
			n++
		}
	}
}
