//go:build torture

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/e2e/checker"
)

// askFor bounds one request; a replica that is frozen answers nothing.
const askFor = 8 * time.Second

// What a form may be answered with.
type verdict int

const (
	unanswered verdict = iota // nobody knows: the same form is sent again
	made
	refused
	odd // what no answer to this form may be
)

// judged says what an answer means, and where it led.
func judged(got shown, err error) (verdict, string) {
	path, _, _ := strings.Cut(got.location, "?")
	switch {
	case err != nil || got.status == http.StatusServiceUnavailable:
		return unanswered, ""
	case got.status == http.StatusSeeOther && (strings.HasPrefix(path, "/runs/") || strings.HasPrefix(path, "/schedules/")):
		return made, strings.TrimPrefix(path, "/runs/")
	case got.status == http.StatusForbidden || got.status == http.StatusConflict || got.status == http.StatusTooManyRequests:
		return refused, got.title()
	}
	return odd, fmt.Sprintf("%d to %q: %s", got.status, got.location, got.title())
}

var pageTitle = regexp.MustCompile(`<title>([^<]*)</title>`)

// title is what the page says that it is.
func (s shown) title() string {
	if found := pageTitle.FindStringSubmatch(s.body); found != nil {
		return found[1]
	}
	return ""
}

// passing are the refusals that a later moment takes back: a role that is missing or a Project that is archived, which come
// before all, a Task that is disabled, a quota that is used up.
var passing = regexp.MustCompile(`^(You may not |No longer allowed|The Task is disabled|Too many retries)`)

// mayPass reports whether the same form can have been refused so and done as well. Of two replicas that it was sent to at
// once one may have refused it before the other did it, and answers come in any order.
func (s shown) mayPass() bool { return passing.MatchString(s.title()) }

// manage carries out what an operator does to a Run.
func (w *torture) manage(ctx context.Context, o *operator, s move) error {
	action, _, _ := strings.Cut(s.Do, ",")
	id, err := w.choose(ctx, action, s.Dice)
	if err != nil {
		return err
	}
	if id == uuid.Nil {
		return nil
	}
	form, _, err := w.openForm(ctx, o, action, id, s.Dice)
	if err != nil || form.form.Get("mutation") == "" {
		return nil // no replica shows it now, or it may not be done: nothing was asked for
	}
	f := &checker.Form{Mutation: form.form.Get("mutation"), Action: "run." + action, Run: id.String()}
	err = w.send(ctx, o, form, f, s)
	w.remember(func(r *checker.Record) { r.Forms = append(r.Forms, *f) })
	return err
}

// candidates are the Runs that an action may be done to, the newest first.
var candidates = map[string]string{
	doRetry: `SELECT id FROM ql3.runs WHERE status = 'failed' ORDER BY id DESC OFFSET $1 LIMIT 1`,
	doStop:  `SELECT id FROM ql3.runs WHERE status IN ('queued', 'running') AND cancel_requested_at_ms IS NULL ORDER BY status DESC, id DESC OFFSET $1 LIMIT 1`,
}

// choose chooses a Run. There may be none, or nobody to ask.
func (w *torture) choose(ctx context.Context, action string, dice uint64) (id uuid.UUID, err error) {
	err = w.database.super.QueryRow(ctx, candidates[action], dice%12).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.count(unheard, "questions that the database did not answer")
	}
	return id, nil
}

// openForm asks one replica after another for the form.
func (w *torture) openForm(ctx context.Context, o *operator, action string, id uuid.UUID, dice uint64) (form submission, got shown, err error) {
	for i := range w.members {
		asking, cancel := context.WithTimeout(ctx, askFor)
		form, got, err = o.open(asking, w.members[(int(dice>>8%64)+i)%len(w.members)].address(), w.database.super, action, id)
		cancel()
		if err == nil && got.status != http.StatusServiceUnavailable {
			break
		}
	}
	return form, got, err
}

// send sends the form until somebody says what became of it, at first to two replicas at once if it is to be so.
func (w *torture) send(ctx context.Context, o *operator, form submission, f *checker.Form, s move) error {
	at := int(s.Dice >> 16 % 64)
	if strings.HasSuffix(s.Do, "at once") {
		var both sync.WaitGroup
		var mu sync.Mutex
		var errs []error
		for i := range 2 {
			both.Go(func() {
				got, err := w.submit(ctx, o, at+i, form)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, note(f, got, err))
			})
		}
		both.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		at += 2
	}
	for deadline := time.Now().Add(patience); !f.Made && f.Refused == 0 && time.Now().Before(deadline); at++ {
		got, err := w.submit(ctx, o, at, form)
		if err := note(f, got, err); err != nil {
			return err
		}
	}
	return nil
}

// submit sends the form to one of the replicas.
func (w *torture) submit(ctx context.Context, o *operator, at int, form submission) (shown, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var cookies []*http.Cookie
	if form.proof != nil {
		cookies = append(cookies, form.proof)
	}
	got, err := o.request(ctx, w.members[at%len(w.members)].address(), form.path, form.form, cookies...)
	if v, _ := judged(got, err); v == unanswered { // it goes to the next one, not at once
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return got, err
}

// note adds an answer to what is remembered of a form. Two answers that cannot both be true are an error, whichever came first.
func note(f *checker.Form, got shown, err error) error {
	v, what := judged(got, err)
	switch {
	case v == odd:
		return fmt.Errorf("%s of %s was answered with %s", f.Action, f.Run, what)
	case v == made && f.Made && f.Result != what:
		return fmt.Errorf("%s of %s led to %s and to %s", f.Action, f.Run, f.Result, what)
	case v == made && f.Final != "":
		return fmt.Errorf("%s of %s by %s was refused, and done: %s", f.Action, f.Run, f.Mutation, f.Final)
	case v == made:
		f.Made, f.Result = true, what
	case v == refused && f.Made && !got.mayPass():
		return fmt.Errorf("%s of %s by %s was done, and refused: %s", f.Action, f.Run, f.Mutation, what)
	case v == refused:
		f.Refused++
		if !got.mayPass() {
			f.Final = what
		}
	default:
		f.Unanswered++
	}
	return nil
}

func TestTortureAnswersThatCannotBothBeTrue(t *testing.T) {
	led := func(to string) shown { return shown{status: http.StatusSeeOther, location: "/runs/" + to} }
	conflict := func(title string) shown {
		return shown{status: http.StatusConflict, body: "<title>" + title + " · QingLong</title>"}
	}
	tests := []struct {
		name    string
		answers []shown
		fails   bool
		refused int
	}{
		{"done twice", []shown{led("a"), led("a")}, false, 0},
		{"led to two Runs", []shown{led("a"), led("b")}, true, 0},
		{"the Task was disabled when the other replica looked", []shown{led("a"), conflict("The Task is disabled")}, false, 1},
		{"its answer came first", []shown{conflict("The Task is disabled"), led("a")}, false, 1},
		{"the Project was archived after it was done", []shown{led("a"), conflict("No longer allowed")}, false, 1},
		{"what no later moment takes back", []shown{led("a"), conflict("The Run has changed")}, true, 0},
		{"the same, and its answer came first", []shown{conflict("The Run has changed"), led("a")}, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f checker.Form
			var err error
			for _, answer := range tt.answers {
				err = errors.Join(err, note(&f, answer, nil))
			}
			if (err != nil) != tt.fails || f.Refused != tt.refused {
				t.Errorf("noted %+v, %v; want an error %v and %d refusals", f, err, tt.fails, tt.refused)
			}
		})
	}
}

// hold pauses a Trigger, or lets it go on, by a form that is sent until it is answered.
func (w *torture) hold(ctx context.Context, o *operator, s move) error {
	p := s.Pause
	form := submission{path: "/schedules/" + p.Project + "/" + p.Trigger + "/resume", form: url.Values{"mutation": {p.ID}, "reason": {"because"},
		"catchup": {map[bool]string{true: "once", false: "now"}[p.CatchUp]}}}
	if s.Do == doPause {
		form.path = strings.TrimSuffix(form.path, "resume") + "pause"
		form.form.Del("catchup")
	}
	began := time.Now()
	for at, deadline := int(s.Dice%64), began.Add(3*patience); time.Now().Before(deadline); at++ {
		switch v, what := judged(w.submit(ctx, o, at, form)); v {
		case made:
			w.remember(func(r *checker.Record) { rememberHold(r, s, windowSince(began)) })
			return nil
		case refused, odd:
			return fmt.Errorf("%s was refused: %s", s, what)
		}
	}
	return fmt.Errorf("nobody answers: %s", s)
}

func rememberHold(r *checker.Record, s move, window checker.Window) {
	if s.Do == doPause {
		r.Pauses = append(r.Pauses, checker.Pause{Project: s.Pause.Project, Trigger: s.Pause.Trigger, ID: s.Pause.ID, Held: window, CatchUp: s.Pause.CatchUp})
		return
	}
	for i := range r.Pauses {
		if r.Pauses[i].ID == s.Pause.ID {
			r.Pauses[i].Resumed = window
		}
	}
}

// windowSince is from then to now.
func windowSince(began time.Time) checker.Window {
	return checker.Window{BeganMS: began.UnixMilli(), AnsweredMS: time.Now().UnixMilli()}
}
