package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// retry is the preview for who shows a good proof, and before that the question why.
func (s *server) retry(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	m, err := s.managed(c, retrying)
	if err != nil {
		return err
	}
	return s.showRetry(c, m, correction{})
}

func (s *server) showRetry(c echo.Context, m managed, again correction) error {
	who, ok := s.who(c, m.acting, m.run.ID)
	if !ok {
		return s.ask(c, m, asking{again: again})
	}
	p, err := s.Runs.Preview(c.Request().Context(), who, m.run.ProjectID, m.run.ID)
	if err != nil {
		return s.askAgain(c, m, err)
	}
	page := s.previewPage(c, m, p)
	page.Submit = again.in(page.Submit)
	return writeHTML(c, again.status(), templates.PreviewPage(page))
}

// askAgain asks for another verification in place of one that is no good; the reason is kept.
func (s *server) askAgain(c echo.Context, m managed, err error) error {
	refusal, ok := errors.AsType[*runmgmt.Refusal](err)
	if !ok || refusal.Reason != runmgmt.StepUpRequired && refusal.Reason != runmgmt.AuthenticationChanged {
		return s.mutationProblem(c, m, submitted{}, err)
	}
	return s.ask(c, m, asking{found: refusal.Detail, reason: refusal.Words})
}

func (s *server) previewPage(c echo.Context, m managed, p runmgmt.Preview) templates.Preview {
	page := templates.Preview{
		Page: s.page(c, m.title(), "/runs", p.NowMS), Name: m.title(), Status: runStatuses[p.Source.Status],
		Proof: proof(m, p.Level, p.LeftMS), Heading: text.Of("Since then"), Since: since(p), Later: s.laterRuns(p), Family: s.family(p.Since.Family, m.run.ID, p.NowMS),
		Author: authorSays(p.Note), Checks: checks(p), Changed: changes(p.Changed), Again: s.verifyAgain(m.deed, m.run.ID, p.Words), Back: s.notNow(m),
	}
	page.Current = text.Of("Changed in the Task since: revision %s will run, %s is current", p.Source.TaskRevision, p.Source.TaskHead)
	if len(p.Plan.Command) > 0 {
		page.Plan = append(planPairs(p.Plan, p.Source.TaskRevision), templates.Pair{Name: text.Of("Quota"), Note: text.Of("%s of %s left this minute", p.Quota, runmgmt.Quota)})
	}
	if p.Ready() {
		page.Submit = s.submission(m, p)
	}
	return page
}

// submission is the form by which the operator says yes to what this page shows.
func (s *server) submission(m managed, p runmgmt.Preview) templates.Form {
	f := templates.Form{Action: s.links.deed(m.deed, m.run.ID), Button: m.say.button, Back: s.notNow(m), Note: m.say.submits, AsksReason: true, Reason: p.Words, Fields: []templates.Field{
		{Name: "mutation", Value: uuid.NewString()}, {Name: "status", Value: string(p.Source.Status)},
		{Name: "version", Value: strconv.FormatInt(p.Source.Version, 10)}, {Name: "plan", Value: p.Plan.ExecutionDigest}}}
	if p.Source.NewestRetry != nil {
		f.Fields = append(f.Fields, templates.Field{Name: "newest", Value: p.Source.NewestRetry.String()})
	}
	if p.Note.Safe == "no" {
		f.Confirm = text.Of("Retry although the Task’s author says that running it again is not safe")
	}
	return f
}

func (s *server) notNow(m managed) templates.Link {
	return templates.Link{Text: text.Of("Not now"), URL: s.links.run(m.run.ID)}
}

func proof(m managed, level string, leftMS int64) templates.Proof {
	return proofOf(m.acting, level, leftMS, provenFor(m.deed, shortID(m.run.ID, "").Short))
}

func proofOf(a acting, level string, leftMS int64, what text.Text) templates.Proof {
	left := max(leftMS/1000, 0)
	return templates.Proof{Text: text.Of("Verified as %s by %s · valid for %s", userName(a.session), levels[level], what),
		Left: fmt.Sprintf("%d:%02d", left/60, left%60), Secs: strconv.FormatInt(left, 10)}
}

// since leads the preview: what has happened that may make the retry needless or harmful.
func since(p runmgmt.Preview) []templates.Sentence {
	var list []templates.Sentence
	running, succeeded, failed := 0, 0, 0
	for _, r := range p.Since.Later {
		switch {
		case r.Status == run.Succeeded:
			succeeded++
		case !r.Status.Terminal():
			running++
		default:
			failed++
		}
	}
	if running > 0 {
		list = append(list, templates.Sentence{Lead: laterOf(running), Rest: text.Of("may still be running."), Tone: "warn"})
	}
	if succeeded > 0 {
		list = append(list, templates.Sentence{Lead: laterOf(succeeded), Rest: text.Of("succeeded.")})
	}
	if failed > 0 {
		list = append(list, templates.Sentence{Lead: laterOf(failed), Rest: text.Of("did not succeed either."), Tone: "warn"})
	}
	if p.Source.Retries > 0 {
		list = append(list, templates.Sentence{Lead: text.Of("This Run has been retried already,"), Rest: text.Count(p.Source.Retries, "1 time.", "%s times."), Tone: "warn"})
	}
	for _, name := range p.Since.Verifying {
		list = append(list, templates.Sentence{Lead: text.Data(shorten(visible(name), listName)), Rest: text.Of("has verified for this Run too, and may retry it this minute."), Tone: "warn"})
	}
	if len(list) == 0 {
		list = append(list, templates.Sentence{Lead: text.Of("Nothing:"), Rest: text.Of("the Task has had no later Run, nobody has retried this one, and nobody else is about to.")})
	}
	return list
}

func laterOf(n int) text.Text {
	return text.Count(n, "1 later Run of this Task", "%s later Runs of this Task")
}

func (s *server) laterRuns(p runmgmt.Preview) templates.Family {
	var f templates.Family
	for _, r := range p.Since.Later {
		f.Members = append(f.Members, templates.Member{ID: shortID(r.ID, s.links.run(r.ID)), Status: runStatuses[r.Status], Created: instant(r.CreatedAtMS, p.NowMS)})
	}
	return f
}

// planPairs is what will run. These details are on the pages of a good verification alone.
func planPairs(plan runmgmt.Plan, taskRevision int64) []templates.Pair {
	list := []templates.Pair{{Name: text.Of("Command"), Mono: commandLine(plan.Command)}}
	for _, x := range []struct {
		name text.Text
		all  []string
	}{{text.Of("Environment"), plan.EnvNames}, {text.Of("Secrets"), secrets(plan.Secrets)}, {text.Of("Placement"), plan.Requires}} {
		if len(x.all) > 0 {
			list = append(list, templates.Pair{Name: x.name, Mono: visible(strings.Join(x.all, ", "))})
		}
	}
	if plan.WorkingDirectory != "" {
		list = append(list, templates.Pair{Name: text.Of("Directory"), Mono: visible(plan.WorkingDirectory)})
	}
	if plan.Timeout > 0 {
		list = append(list, templates.Pair{Name: text.Of("Timeout"), Note: duration(plan.Timeout.Milliseconds())})
	}
	return append(list, templates.Pair{Name: text.Of("Revision"), Note: text.Of("%s, as this Run ran it", taskRevision)},
		templates.Pair{Name: text.Of("Digest"), Mono: digest(plan.ExecutionDigest), Title: plan.ExecutionDigest})
}

var bareWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// commandLine is arguments as one would type them: what needs quotes has them, of the kind that leaves it readable.
func commandLine(args []string) string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = visible(a)
		switch {
		case bareWord.MatchString(a):
		case strings.Contains(a, "'") && !strings.ContainsAny(a, "\"$`\\!"):
			list[i] = `"` + list[i] + `"`
		default:
			list[i] = quoted(list[i])
		}
	}
	return strings.Join(list, " ")
}

func secrets(list []runmgmt.Secret) []string {
	var words []string
	for _, x := range list {
		words = append(words, x.Name+" ← "+x.Reference)
	}
	return words
}

func checks(p runmgmt.Preview) []templates.Check {
	var list []templates.Check
	for _, v := range p.Verdicts {
		list = append(list, check(v.Check, v.Refusal))
	}
	return list
}

func check(what text.Text, refusal *runmgmt.Refusal) templates.Check {
	c := templates.Check{Status: passedCheck, What: what}
	if refusal != nil {
		c.Status, c.Why = failedCheck, refusal.Detail.Map(visible)
	}
	return c
}

var (
	passedCheck = templates.Status{Word: text.Of("passed"), Shape: "disc", Tone: "ok"}
	failedCheck = templates.Status{Word: text.Of("failed"), Shape: "triangle", Tone: "bad"}
)

func changes(list []catalog.Detail) []templates.Change {
	var rows []templates.Change
	for _, d := range list {
		rows = append(rows, templates.Change{Field: visible(d.Field), From: visible(d.From), To: visible(d.To)})
	}
	return rows
}

// submitRetry makes the retry, or says why not.
func (s *server) submitRetry(c echo.Context) error {
	m, f, err := s.submitted(c, retrying)
	if err != nil {
		return err
	}
	again, wrong := m.correct(f)
	if f.unsure {
		return s.showRetry(c, m, again)
	}
	who, _ := s.who(c, m.acting, m.run.ID) // an exact replay needs no proof
	made, err := s.Runs.Retry(c.Request().Context(), runmgmt.Retry{Who: who, MutationID: f.mutation, ProjectID: m.run.ProjectID, RunID: m.run.ID,
		SourceStatus: f.status, SourceVersion: f.version, PlanDigest: f.plan, NewestRetry: f.newest, Words: f.reason})
	if wrong && refusedFor(err, runmgmt.Invalid) {
		return s.showRetry(c, m, again)
	}
	if err != nil {
		return s.mutationProblem(c, m, f, err)
	}
	return s.doneTo(c, m, made)
}

// submitted is the Run and the form of a submission.
func (s *server) submitted(c echo.Context, d deed) (managed, submitted, error) {
	m, err := s.managed(c, d)
	if err != nil {
		return m, submitted{}, err
	}
	f, err := readForm(c)
	return m, f, err
}

// doneTo leads to the Run that a submission made or changed. The proof is spent, so the browser needs it no more.
func (s *server) doneTo(c echo.Context, m managed, made runmgmt.Made) error {
	s.StepUp.Forget(c.Response(), m.action, m.run.ID)
	how := "made"
	if made.Replayed {
		how = "before"
	}
	return c.Redirect(http.StatusSeeOther, withQuery(s.links.run(made.RunID), url.Values{m.path: {how}}))
}
