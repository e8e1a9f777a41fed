package runmgmt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

// person is who is at a browser with nothing but a session.
func (w *world) person() Who {
	return Who{SessionID: w.session, Actor: policy.Actor{Type: policy.ByUser, UserID: &w.user, Issuer: "https://idp.example", Subject: "alice", Name: "alice", SessionID: &w.session}}
}

func (w *world) pauseForm() Pause {
	return Pause{Who: w.person(), ID: uuid.New(), ProjectID: "ops", TriggerID: "report", Words: "the bank is down"}
}

func (w *world) resumeForm(id uuid.UUID) Resume {
	return Resume{Who: w.person(), PauseID: id, ProjectID: "ops", TriggerID: "report"}
}

// audited lists the audit of pausing, oldest first.
func (w *world) audited() string {
	w.t.Helper()
	return strings.Join(value[[]string](w, `SELECT coalesce(array_agg(concat_ws(' ', action, outcome, reason, detail ->> 'trigger', words) ORDER BY created_at_ms, id), '{}')
		FROM security_audit_events WHERE action LIKE 'trigger.%'`), "\n")
}

// Somebody who closes the page meanwhile is no fault of the console's, and nobody is called for it.
func TestPauseWhoseSenderLeavesIsNoError(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.manager.Log = slog.New(slog.NewTextHandler(&log, nil))
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.manager.Pause(left, w.pauseForm()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Pause() of somebody who has left = %v, want %v", err, ErrUnavailable)
	}
	if said := log.String(); !strings.Contains(said, "level=INFO") || strings.Contains(said, "level=ERROR") {
		t.Errorf("the log says %q, want no error", said)
	}
	w.manager.Pool.Close()
	if _, err := w.manager.Pause(t.Context(), w.pauseForm()); err == nil || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("Pause() without a pool = %v, and the log says %q, want an error", err, log.String())
	}
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	form := w.pauseForm()
	expect := func(name string, got Paused, err error, already, ended bool, id uuid.UUID) {
		t.Helper()
		if err != nil || got.Already != already || got.Pause.ID != id || (got.Pause.ResumedMS != nil) != ended || got.Pause.ByName != "alice" {
			t.Errorf("%s = %+v, %v; want already %v, ended %v", name, got, err, already, ended)
		}
	}
	got, err := w.manager.Pause(t.Context(), form)
	expect("Pause", got, err, false, false, form.ID)
	got, err = w.manager.Pause(t.Context(), form)
	expect("the same form again", got, err, true, false, form.ID)
	got, err = w.manager.Pause(t.Context(), w.pauseForm())
	expect("another form for the paused", got, err, true, false, form.ID)
	got, err = w.manager.Resume(t.Context(), w.resumeForm(form.ID))
	expect("Resume", got, err, false, true, form.ID)
	got, err = w.manager.Resume(t.Context(), w.resumeForm(form.ID))
	expect("Resume again", got, err, true, true, form.ID)
	got, err = w.manager.Pause(t.Context(), form)
	expect("the first form, late", got, err, true, true, form.ID)
	if n := value[int](w, `SELECT count(*) FROM trigger_schedules WHERE pause_id IS NOT NULL`); n != 0 {
		t.Error("a form that came late paused the Trigger again")
	}
	second := w.pauseForm()
	got, err = w.manager.Pause(t.Context(), second)
	expect("a second pause", got, err, false, false, second.ID)
	if _, err := w.manager.Resume(t.Context(), w.resumeForm(form.ID)); reasonOf(err) != string(PauseChanged) {
		t.Errorf("Resume of the first pause while the second holds = %v, want pause_changed", err)
	}
	want := "trigger.pause allowed report the bank is down\ntrigger.resume allowed report\ntrigger.pause allowed report the bank is down\ntrigger.resume denied pause_changed report"
	if diff := cmp.Diff(want, w.audited()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func TestPauseAndResumeRefuse(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world, p *Pause, r *Resume)
		want   Reason
	}{
		{"incomplete", func(_ *world, p *Pause, r *Resume) { p.ID, r.PauseID = uuid.Nil, uuid.Nil }, Invalid},
		{"a reason that is too long", func(_ *world, p *Pause, r *Resume) {
			p.Words = strings.Repeat("é", 501)
			r.Words = p.Words
		}, Invalid},
		{"another project", func(_ *world, p *Pause, r *Resume) { p.ProjectID, r.ProjectID = "other", "other" }, NotFound},
		{"another trigger", func(_ *world, p *Pause, r *Resume) { p.TriggerID, r.TriggerID = "other", "other" }, NotFound},
		{"a viewer", func(w *world, _ *Pause, _ *Resume) {
			w.exec(`INSERT INTO project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms) VALUES ('ops', $1, 2, 'viewer', gen_random_uuid(), 'test', 1)`, w.user)
		}, AuthorizationChanged},
		{"user disabled", func(w *world, _ *Pause, _ *Resume) { w.exec(`UPDATE users SET status = 'disabled'`) }, AuthorizationChanged},
		{"project archived", func(w *world, _ *Pause, _ *Resume) { w.exec(`UPDATE projects SET status = 'archived'`) }, AuthorizationChanged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			held := w.pauseForm()
			if _, err := w.manager.Pause(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			p, r := w.pauseForm(), w.resumeForm(held.ID)
			tt.change(w, &p, &r)
			before := value[string](w, `SELECT s::text FROM trigger_schedules s`)
			if _, err := w.manager.Pause(t.Context(), p); reasonOf(err) != string(tt.want) {
				t.Errorf("Pause = %v, want %s", err, tt.want)
			}
			if _, err := w.manager.Resume(t.Context(), r); reasonOf(err) != string(tt.want) {
				t.Errorf("Resume = %v, want %s", err, tt.want)
			}
			if n := w.ledger().Denied; n != 2 {
				t.Errorf("%d denied rows, want one for each", n)
			}
			if after := value[string](w, `SELECT s::text FROM trigger_schedules s`); after != before {
				t.Errorf("the schedule went from\n%s to\n%s", before, after)
			}
		})
	}
	w := newWorld(t)
	p := w.pauseForm()
	p.Words = " "
	if _, err := w.manager.Pause(t.Context(), p); reasonOf(err) != string(Invalid) {
		t.Errorf("Pause without a reason = %v, want invalid", err)
	}
}

// Twenty people pause at once, and twenty resume: one pause, ended once, on record once.
func TestPauseContested(t *testing.T) {
	w := newWorld(t)
	managers := []*Manager{w.manager, w.newManager(w.Pool(t, migrations.RoleRunManager))}
	contest := func(do func(m *Manager) (Paused, error)) (news int) {
		t.Helper()
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 20 {
			all.Go(func() {
				<-start
				got, err := do(managers[i%2])
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("a contender got %v", err)
				} else if !got.Already {
					news++
				}
			})
		}
		close(start)
		all.Wait()
		return news
	}
	if n := contest(func(m *Manager) (Paused, error) { return m.Pause(context.Background(), w.pauseForm()) }); n != 1 {
		t.Errorf("%d of 20 pauses were new, want 1", n)
	}
	id := value[uuid.UUID](w, `SELECT pause_id FROM trigger_schedules`)
	if n := contest(func(m *Manager) (Paused, error) { return m.Resume(context.Background(), w.resumeForm(id)) }); n != 1 {
		t.Errorf("%d of 20 resumptions were new, want 1", n)
	}
	if n := value[int](w, `SELECT count(*) FROM security_audit_events WHERE action LIKE 'trigger.%'`); n != 2 {
		t.Errorf("%d audit rows, want 2", n)
	}
}

func TestPauseWhoseCommitGetsNoAnswer(t *testing.T) {
	for name, loss := range map[string]pgtest.Loss{"committed": pgtest.LoseAnswer, "not committed": pgtest.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			form := w.pauseForm()
			pool, _ := pgtest.LoseCommits(t, w.URL(migrations.RoleRunManager), loss, 1)
			if _, err := w.newManager(pool).Pause(t.Context(), form); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatalf("Pause = %v, want ErrOutcomeUnknown", err)
			}
			got, err := w.manager.Pause(t.Context(), form)
			if err != nil || got.Already != (loss == pgtest.LoseAnswer) {
				t.Errorf("the same form again = %+v, %v", got, err)
			}
			if n := value[int](w, `SELECT count(*) FROM trigger_pauses`); n != 1 {
				t.Errorf("%d pauses, want 1", n)
			}
		})
	}
}
