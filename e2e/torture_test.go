//go:build torture

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/e2e/checker"
)

// A torture is several replicas, each before its own toxiproxy, one database, those who publish, pause, retry and stop,
// and what they remember of it.
type torture struct {
	*testing.T
	console    string
	database   *database
	members    []*member
	publisher  *link
	publishing map[string]string
	operators  map[string]*operator
	began      time.Time

	mu      sync.Mutex
	counts  map[string]map[string]int // by heading
	record  checker.Record
	trouble []trouble
}

// TestTorture is `make torture`. TORTURE_SEED is what the plan is made from, TORTURE_DURATION how long it takes. The lines
// of its report begin with tortureReport, the last but the figures.
func TestTorture(t *testing.T) {
	seed, length := settings(t)
	w := &torture{T: t, counts: map[string]map[string]int{}, operators: map[string]*operator{}}
	w.printf("seed %d, %v, %d replicas, clocks wrong by %v", seed, length, len(tortureSkews), tortureSkews)
	plan := newPlan(seed, length)
	w.begin()
	w.play(plan, seed)
	upTo := w.settle()
	w.verdict(seed, upTo)
}

func settings(t *testing.T) (seed uint64, length time.Duration) {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("TORTURE_SEED"), 10, 64)
	if err != nil {
		t.Fatalf("TORTURE_SEED: %v", err)
	}
	length, err = time.ParseDuration(os.Getenv("TORTURE_DURATION"))
	if err != nil {
		t.Fatalf("TORTURE_DURATION: %v", err)
	}
	return seed, length
}

// tortureReport begins the lines of the report, which .ci/torture picks.
const tortureReport = "torture| "

func (w *torture) printf(format string, args ...any) {
	fmt.Fprintf(os.Stdout, tortureReport+format+"\n", args...)
}

// begin publishes and starts everything.
func (w *torture) begin() {
	w.Helper()
	w.database = newDatabase(w.T)
	if w.database.disk == nil {
		w.printf("NOT INJECTED: a full disk, for want of a disk: %s", w.database.noDisk)
	}
	var err error
	if w.console, err = console(); err != nil {
		w.Fatal(err)
	}
	address := w.database.url(w).Host
	w.publisher = newLink(w, "publisher", address)
	w.publishing = map[string]string{"CONSOLE_ADMIN_DATABASE_URL": strings.Replace(w.database.vars["CONSOLE_ADMIN_DATABASE_URL"], address, w.publisher.address, 1)}
	for _, name := range tortureProjects {
		if err := w.publish(move{Do: doPublish, On: name, Apply: initially(&dice{on: name}).everything()}); err != nil {
			w.Fatal(err)
		}
	}
	pages := pagesVariables(w)
	for i, skew := range tortureSkews {
		w.members = append(w.members, newMember(w, fmt.Sprintf("replica-%d", i+1), skew, w.database, pages))
	}
	for _, name := range slices.Concat(tortureOperators, tortureProjects) { // who pauses in a Project is called after it
		w.operators[name] = signIn(w, w.members[0].now, w.database.super, w.database.vars, name, tortureProjects...)
	}
}

// play carries the plan out.
func (w *torture) play(plan []lane, seed uint64) {
	w.began = time.Now()
	w.printf("%8s %s", "seconds", "what begins then, on or by whom, and how long it lasts")
	ctx, cancel := context.WithCancel(w.Context())
	var worker, lanes sync.WaitGroup
	worker.Go(func() {
		if err := w.work(ctx, seed); err != nil {
			w.Error(err)
		}
	})
	for _, l := range plan {
		lanes.Go(func() { w.follow(ctx, l) })
	}
	lanes.Wait()
	cancel()
	worker.Wait()
}

// follow carries out the moves of one lane. What goes wrong with a move itself is a finding, and ends it.
func (w *torture) follow(ctx context.Context, l lane) {
	for _, s := range l.moves {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(w.began.Add(s.At))):
		}
		began := time.Now()
		w.printf("%8.3f %s", began.Sub(w.began).Seconds(), s)
		err := w.carryOut(ctx, l.name, s)
		w.count(happened, s.Do)
		w.troubled(l.name, s, began)
		if err != nil {
			w.finding("%s: %s: %v", l.name, s, err)
			return
		}
	}
}

func (w *torture) carryOut(ctx context.Context, lane string, s move) error {
	switch {
	case s.Apply != nil:
		return w.publish(s)
	case s.Pause != nil:
		return w.hold(ctx, w.operators[lane], s)
	case lane == "database":
		return w.database.suffer(ctx, s)
	case lane == "publisher":
		return w.publisher.suffer(s)
	case w.operators[lane] != nil:
		return w.manage(ctx, w.operators[lane], s)
	}
	i := slices.IndexFunc(w.members, func(m *member) bool { return m.name == lane })
	return w.members[i].suffer(s)
}

func (w *torture) remember(what func(r *checker.Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what(&w.record)
}

// settle waits until everything works and nothing is due, and then stops every replica. It returns the moment at which
// nothing was due: whatever was expected until then is decided.
func (w *torture) settle() (upTo int64) {
	w.Helper()
	for _, m := range w.members {
		eventually(w, m.name+" is ready again", func() bool {
			if m.now.machine == "" {
				m.now.machine = m.now.listener()
			}
			status, _ := m.now.get(w, "/readyz")
			return status == http.StatusOK
		})
	}
	eventually(w, "nothing is due and no claim is past its lease", func() bool {
		var due int
		err := w.database.super.QueryRow(w.Context(), `
			WITH clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms)
			SELECT ms, (SELECT count(*) FROM ql3.trigger_schedules WHERE enabled AND coalesce(next_fire_at_ms, 0) <= ms OR claim_expires_at_ms <= ms) FROM clock`).Scan(&upTo, &due)
		return err == nil && due == 0
	})
	for _, m := range w.members {
		if err := m.stop(); err != nil {
			w.finding("%v", err)
		}
	}
	return upTo
}

// verdict asks the checker, and prints the figures.
func (w *torture) verdict(seed uint64, upTo int64) {
	w.Helper()
	w.record.Sort()
	r, err := w.check(checker.Question{UpToMS: upTo, GraceMS: tortureGrace.Milliseconds(), Record: &w.record})
	if err != nil {
		w.Errorf("check: %v", err)
	}
	for _, broken := range r.Wrong {
		w.finding("%s", broken)
	}
	w.readLogs()
	w.printCounts()
	faults := 0
	for _, what := range tortureFaults {
		faults += w.counts[happened][what]
	}
	if err == nil {
		w.printf("of the checker's %d rules %d held", len(checker.Rules), len(checker.Rules)-len(r.Wrong))
	}
	w.printf("the logs of the replicas and of the server are below %s", w.ArtifactDir())
	w.printf("torture: seed=%d faults=%d expected=%d admitted=%d accounted=%d duplicates=%d unaccounted=%d",
		seed, faults, r.Expected, r.Admitted, r.Accounted, r.Duplicates, r.Unaccounted+r.NotYet)
}

// check lets the checker see everything in one snapshot.
func (w *torture) check(q checker.Question) (r checker.Report, err error) {
	err = pgx.BeginTxFunc(w.Context(), w.database.super, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		r, err = checker.Check(w.Context(), tx, q)
		return err
	})
	return r, err
}
