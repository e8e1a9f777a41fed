package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/dev/executor"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// world is a database with Tasks and a directory that their commands write to.
type world struct {
	*pgtest.Database
	t     *testing.T
	super *pgxpool.Pool
	dir   string
}

// newWorld publishes tasks, lines of YAML each, in which DIR is the directory.
func newWorld(t *testing.T, tasks map[string]string) *world {
	t.Helper()
	d := pgtest.New(t)
	w := &world{Database: d, t: t, super: d.Super(t), dir: t.TempDir()}
	var b strings.Builder
	b.WriteString("projects:\n  - id: p\n    name: P\n    tasks:\n")
	for id, lines := range tasks {
		fmt.Fprintf(&b, "      - id: %s\n        name: %s\n", id, id)
		for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			b.WriteString("        " + strings.TrimSpace(strings.ReplaceAll(line, "DIR", w.dir)) + "\n")
		}
		fmt.Fprintf(&b, "        triggers: [{id: %s, cron: '0 0 1 1 *', timezone: UTC}]\n", id)
	}
	runtest.Publish(t, d, b.String())
	return w
}

func (w *world) admit(task string) uuid.UUID {
	w.t.Helper()
	now := runtest.Clock(w.t, w.super)
	return runtest.Admit(w.t, w.Database, "p", task, now, now)
}

// start runs an executor; stop ends it and waits for its end.
func (w *world) start(slots int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	config := executor.Config{Pool: w.Pool(w.t, migrations.RoleRuntime), Name: "worker-1", Slots: slots,
		Log:        slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		RenewEvery: 20 * time.Millisecond, PollEvery: 5 * time.Millisecond, TermGrace: 2 * time.Second}
	go func() {
		defer close(ended)
		executor.Run(ctx, config)
	}()
	stop = func() { cancel(); <-ended }
	w.t.Cleanup(stop)
	return stop
}

// until waits for ok, for as long as a loaded machine may need.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// exec runs sql as superuser with triggers and foreign keys off.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	pgtest.Force(w.t, w.super, sql, args...)
}

// ending is what is recorded of a Run, the same in its Attempt.
type ending struct {
	Status, Code string
	Exit         int // -1 if there is none
	Summary      string
}

func (w *world) ending(id uuid.UUID) (run ending) {
	w.t.Helper()
	var attempt ending
	err := w.super.QueryRow(w.t.Context(), `
		SELECT r.status, coalesce(r.error_code, ''), coalesce(r.error_summary, ''),
			a.status, coalesce(a.error_code, ''), coalesce(a.error_summary, ''), coalesce(a.exit_code, -1)
		FROM runs r JOIN run_attempts a ON a.run_id = r.id WHERE r.id = $1`, id).
		Scan(&run.Status, &run.Code, &run.Summary, &attempt.Status, &attempt.Code, &attempt.Summary, &attempt.Exit)
	if err != nil {
		w.t.Fatal(err)
	}
	run.Exit = attempt.Exit
	if run.over() && run != attempt {
		w.t.Errorf("Run %+v, its Attempt %+v, want the same", run, attempt)
	}
	return run
}

func (e ending) over() bool {
	return e.Status == "succeeded" || e.Status == "failed" || e.Status == "cancelled" || e.Status == "timed_out"
}

func (w *world) untilOver(ids ...uuid.UUID) {
	w.t.Helper()
	w.until("end of the Runs", func() bool {
		for _, id := range ids {
			if !w.ending(id).over() {
				return false
			}
		}
		return true
	})
}

// file is what a command wrote, or "".
func (w *world) file(name string) string {
	b, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(b)
}

// dead waits until the process whose number is in the file has ended; a zombie has.
func (w *world) dead(name string) {
	w.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(w.file(name)))
	if err != nil {
		w.t.Fatalf("no process id in %s: %v", name, err)
	}
	w.until("end of process in "+name, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

const fixed = "\n env: {LANG: C.UTF-8, GREETING: hello world}"

func TestCommandsEndAsTheyEnd(t *testing.T) {
	t.Setenv("CONSOLE_TEST_LEAK", "of this process")
	tests := []struct {
		name, task string
		want       ending
	}{
		{"success", `command: [/bin/true]`, ending{"succeeded", "", 0, ""}},
		{"success-says-nothing", `command: [/bin/sh, -c, "echo fine >&2"]`, ending{"succeeded", "", 0, ""}},
		{"exit-code", `command: [/bin/sh, -c, "echo first >&2; echo no billing >&2; exit 3"]`, ending{"failed", "exit_code", 3, "no billing"}},
		{"signal", `command: [/bin/sh, -c, "echo ouch >&2; kill -9 $$"]`, ending{"failed", "signalled", -1, "signal: killed ouch"}},
		{"timeout", "command: [/bin/sleep, '60']\n timeout: 1s", ending{"timed_out", "timed_out", -1, ""}},
		{"timeout-ignores-term", "command: [/bin/sh, -c, 'trap \"\" TERM; echo $$ >DIR/stubborn; while :; do sleep 1; done']\n timeout: 1s", ending{"timed_out", "timed_out", -1, ""}},
		{"timeout-obeys-with-0", "command: [/bin/sh, -c, 'trap \"exit 0\" TERM; sleep 60 & wait']\n timeout: 1s", ending{"timed_out", "timed_out", 0, ""}},
		{"timeout-terms-the-group", "command: [/bin/sh, -c, 'trap : TERM; (trap \"echo bye >DIR/farewell; exit\" TERM; sleep 60 & wait) & wait; wait']\n timeout: 1s", ending{"timed_out", "timed_out", 0, ""}},
		{"timeout-grandchild", "command: [/bin/sh, -c, '(trap \"\" TERM; exec sleep 60) & echo $! >DIR/grandchild; wait']\n timeout: 1s", ending{"timed_out", "timed_out", -1, ""}},
		{"leaves-a-child", `command: [/bin/sh, -c, "sleep 60 & echo $! >DIR/left"]`, ending{"succeeded", "", 0, ""}},
		{"fails-and-leaves-a-child", `command: [/bin/sh, -c, "sleep 60 & echo broken >&2; exit 2"]` + "\n timeout: 1s", ending{"failed", "exit_code", 2, "broken"}},
		{"no-such-file", `command: [/nowhere/program, an-argument]`, ending{"failed", "not_started", -1, "the command could not be started: no such file or directory"}},
		{"no-such-program", `command: [no-such-program-at-all]`, ending{"failed", "not_started", -1, "the command could not be started: no such program"}},
		{"not-executable", `command: [/etc/passwd]`, ending{"failed", "not_started", -1, "the command could not be started: permission denied"}},
		{"no-such-directory", "command: [/bin/true]\n workingDirectory: /nowhere", ending{"failed", "not_started", -1, "the command could not be started: no such file or directory"}},
		{"environment", `command: [/bin/sh, -c, "cat /proc/$$/environ >DIR/environment"]` + fixed, ending{"succeeded", "", 0, ""}},
		{"no-environment", `command: [/bin/sh, -c, "cat /proc/$$/environ >DIR/none; echo there >>DIR/none"]`, ending{"succeeded", "", 0, ""}},
		{"directory", "command: [/bin/sh, -c, 'pwd >DIR/directory']\n workingDirectory: /usr", ending{"succeeded", "", 0, ""}},
		{"secret", `command: [/bin/sh, -c, "echo started >DIR/secret"]` + "\n env: {LANG: C, DB_PASSWORD: 'qlsecret:v1:db'}",
			ending{"failed", "secret_unavailable", -1, "the local executor has no secret store; DB_PASSWORD refers to a secret"}},
		{"redacted", `command: [/bin/sh, -c, "echo \"it says $GREETING!\" >&2; exit 1"]` + fixed, ending{"failed", "exit_code", 1, "it says [redacted]!"}},
		{"long", `command: [/bin/sh, -c, "head -c 10000 /dev/zero | tr '\\0' x >&2; exit 1"]`, ending{"failed", "exit_code", 1, strings.Repeat("x", 499) + "…"}},
	}
	tasks := map[string]string{}
	for _, tt := range tests {
		tasks[tt.name] = tt.task
	}
	w := newWorld(t, tasks)
	ids := make([]uuid.UUID, len(tests))
	for i, tt := range tests {
		ids[i] = w.admit(tt.name)
	}
	w.start(5)
	w.untilOver(ids...)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, w.ending(ids[i])); diff != "" {
				t.Errorf("ending (-want +got)\n%s", diff)
			}
		})
	}
	w.dead("stubborn")
	w.dead("grandchild")
	w.dead("left")
	files := map[string]string{
		"environment": "GREETING=hello world\x00LANG=C.UTF-8\x00", // no PATH, nothing of this process's
		"none":        "there\n",
		"directory":   "/usr\n",
		"secret":      "", // was not started
		"farewell":    "bye\n",
	}
	for name, want := range files {
		if got := w.file(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// held is a command that says which process it is and then does not end by itself.
const held = `command: [/bin/sh, -c, "echo $$ >DIR/pid.new; mv DIR/pid.new DIR/pid; exec sleep 600"]`

// running admits the held Task and waits until its command runs.
func (w *world) running() uuid.UUID {
	w.t.Helper()
	id := w.admit("held")
	w.until("start of the command", func() bool { return w.file("pid") != "" })
	return id
}

// row is everything recorded of a Run, as text.
func (w *world) row(id uuid.UUID) (text string) {
	w.t.Helper()
	err := w.super.QueryRow(w.t.Context(), `SELECT concat(r, a, (SELECT count(*) FROM run_events WHERE run_id = r.id))
		FROM runs r JOIN run_attempts a ON a.run_id = r.id WHERE r.id = $1`, id).Scan(&text)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func TestLostLeaseStopsTheCommandAndRecordsNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"held": held, "next": `command: [/bin/true]`})
	w.start(1)
	id := w.running()
	w.exec(`UPDATE run_attempts SET lease_token = gen_random_uuid(), lease_expires_at_ms = 4102444800000 WHERE run_id = $1`, id)
	taken := w.row(id)
	w.dead("pid")
	w.untilOver(w.admit("next")) // the only slot is free again
	if diff := cmp.Diff(taken, w.row(id)); diff != "" {
		t.Errorf("the Run that another worker has (-before +after)\n%s", diff)
	}
}

func TestStoppingTerminatesAndRecords(t *testing.T) {
	w := newWorld(t, map[string]string{"held": held})
	stop := w.start(1)
	id := w.running()
	stop()
	w.dead("pid")
	want := ending{"failed", "executor_stopped", -1, "console dev was stopped before the command had ended"}
	if diff := cmp.Diff(want, w.ending(id)); diff != "" {
		t.Errorf("ending (-want +got)\n%s", diff)
	}
}

// The executor is stopped while it reads what to run: that says nothing about the execution revision.
func TestStoppingBeforeTheStartRecordsThat(t *testing.T) {
	w := newWorld(t, map[string]string{"held": held})
	id := w.admit("held")
	tx, err := w.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `LOCK TABLE task_execution_revisions IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	stop := w.start(1)
	pgtest.AwaitLock(t, w.super)
	stop()
	want := ending{"failed", "executor_stopped", -1, "console dev was stopped before the command had ended"}
	if diff := cmp.Diff(want, w.ending(id)); diff != "" {
		t.Errorf("ending (-want +got)\n%s", diff)
	}
}

func TestCancelRequestStopsTheCommand(t *testing.T) {
	w := newWorld(t, map[string]string{"held": held})
	w.start(1)
	id := w.running()
	_, err := w.Pool(t, migrations.RoleRunManager).Exec(t.Context(), `UPDATE runs SET cancel_requested_at_ms = created_at_ms, cancel_reason = 'user' WHERE id = $1`, id)
	if err != nil {
		t.Fatal(err)
	}
	w.untilOver(id)
	w.dead("pid")
	if diff := cmp.Diff(ending{"cancelled", "cancelled", -1, ""}, w.ending(id)); diff != "" {
		t.Errorf("ending (-want +got)\n%s", diff)
	}
}

func TestTamperedExecutionIsNotRun(t *testing.T) {
	w := newWorld(t, map[string]string{"held": held})
	w.exec(`ALTER TABLE task_execution_revisions DROP CONSTRAINT execution_digest_matches`)
	w.exec(`UPDATE task_execution_revisions SET content = replace(content, 'sleep 600', 'sleep 601')`)
	id := w.admit("held")
	w.start(1)
	w.untilOver(id)
	want := ending{"failed", "execution_unusable", -1, "the execution revision cannot be read or does not match its digest"}
	if diff := cmp.Diff(want, w.ending(id)); diff != "" || w.file("pid") != "" {
		t.Errorf("started as process %q; ending (-want +got)\n%s", w.file("pid"), diff)
	}
}
