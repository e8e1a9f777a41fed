package web

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// The fields of the forms, which are sent back as they were when a database cannot be reached.
var formFields = []string{"mutation", "status", "version", "plan", "newest", "action", "only", "catchup", "asked", "sure", "reason"}

// The fields that name a Run each. A Run of a Task that is not safe to run again has one of its own.
var choiceFields = []string{"run", "unsafe"}

// submitted is a form as it was sent. Reading it refuses what no page of the console sends.
type submitted struct {
	mutation uuid.UUID
	status   run.Status
	version  int64
	plan     string
	newest   *uuid.UUID
	unsure   bool // the second confirmation was asked for, and not given
	reason   string
}

func readForm(c echo.Context) (f submitted, err error) {
	r := c.Request()
	if !isTop(r) {
		return f, foreignForm(errors.New("a form was sent by what is no window"))
	}
	if err := r.ParseForm(); err != nil {
		return f, badForm(text.Of("The form cannot be read."))
	}
	for _, name := range formFields {
		if len(r.PostForm[name]) > 1 {
			return f, badForm(text.Of("The form has the field %s more than once.", name))
		}
	}
	f.status, f.plan = run.Status(r.PostForm.Get("status")), r.PostForm.Get("plan")
	f.unsure = r.PostForm.Get("asked") != "" && r.PostForm.Get("sure") == ""
	f.reason = strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("reason"), "\r\n", "\n"))
	if strings.ContainsRune(f.reason, 0) || strings.ToValidUTF8(f.reason, "") != f.reason {
		return f, badForm(text.Of("The reason is not text."))
	}
	if version := r.PostForm.Get("version"); version != "" {
		if f.version, err = strconv.ParseInt(version, 10, 64); err != nil {
			return f, badForm(text.Of("The version of the Run is not a number."))
		}
	}
	f.mutation, _ = uuid.Parse(r.PostForm.Get("mutation")) // the manager refuses what is missing
	if id, err := uuid.Parse(r.PostForm.Get("newest")); err == nil {
		f.newest = &id
	}
	return f, nil
}

func badForm(what text.Text) problem {
	p := newProblem(http.StatusBadRequest, text.Of("Bad form"), what, nothing, text.Of("Open the page again, and send its form."), nil)
	p.kind = string(runmgmt.Invalid)
	return p
}

// correct is f to be shown again, if it holds what the manager refuses and its sender may write otherwise.
func (m managed) correct(f submitted) (correction, bool) { return m.say.correct(f.reason, f.unsure) }

// correct is the same of a form with that reason, and unsure if its second confirmation is missing.
func (w deedWords) correct(reason string, unsure bool) (correction, bool) {
	n, wrong := len([]rune(reason)), text.Text{}
	switch {
	case reason == "":
		wrong = w.noReason
	case n > runmgmt.MaxWords:
		wrong = text.Of("The reason has %s characters, at most %s are kept.", n, runmgmt.MaxWords)
	case unsure:
		wrong = w.unsure
	}
	return correction{wrong: text.Join(text.Data(" "), wrong, w.notDone), reason: reason}, !wrong.Empty()
}

// A correction is what a form is shown again with: what is wrong with it, and what was written.
type correction struct {
	wrong  text.Text
	reason string
	code   int // of the answer, unless it is that of a bad form
}

// in shows f again.
func (c correction) in(f templates.Form) templates.Form {
	if !c.wrong.Empty() {
		f.Wrong, f.Reason = c.wrong, c.reason
	}
	return f
}

func (c correction) status() int {
	if c.wrong.Empty() {
		return http.StatusOK
	}
	return cmp.Or(c.code, http.StatusBadRequest)
}

// resend is the form that was sent, for its sender to send again. It asks nothing of the database.
func (s *server) resend(c echo.Context) templates.Form {
	if c.Request().Method != http.MethodPost || c.Request().ParseForm() != nil {
		return templates.Form{}
	}
	to := s.formAddress(c)
	if to == "" {
		return templates.Form{}
	}
	return s.formOf(c, to)
}

// formAddress is where a form was sent to that may be sent there again, or "".
func (s *server) formAddress(c echo.Context) string {
	path := s.routeOf(c).path
	switch path {
	case freezePath:
		return s.links.url(freezePath, nil)
	case pausePath, resumePath:
		return s.links.schedule(c.Param("project"), c.Param("trigger")) + strings.TrimPrefix(path, schedulePath) // a path has been matched, and is escaped anew
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return ""
	}
	return map[string]string{
		deedPath(retrying): s.links.deed(retrying, id), deedPath(retrying) + "/verify": s.links.verify(retrying, id),
		deedPath(stopping): s.links.deed(stopping, id), deedPath(stopping) + "/verify": s.links.verify(stopping, id),
		submissionPath: s.links.submission(id, ""), submissionPath + "/verify": s.links.verifyBatch(id),
	}[path]
}

func deedPath(d deed) string { return "/runs/:id/" + d.path }

func (s *server) formOf(c echo.Context, action string) templates.Form {
	f := templates.Form{Action: action, Button: text.Of("Send again")}
	for _, name := range formFields {
		f.Fields = appendFields(f.Fields, name, c.Request().PostForm[name], 1)
	}
	for _, name := range choiceFields {
		f.Fields = appendFields(f.Fields, name, c.Request().PostForm[name], runmgmt.MaxBatch)
	}
	return f
}

// appendFields appends the values of a field that may have so many.
func appendFields(list []templates.Field, name string, values []string, most int) []templates.Field {
	if len(values) > most {
		return list
	}
	for _, v := range values {
		if strings.ToValidUTF8(v, "") == v {
			list = append(list, templates.Field{Name: name, Value: v})
		}
	}
	return list
}

// set replaces one field.
func set(f templates.Form, name, value string) templates.Form {
	f.Fields = append(dropField(f.Fields, name), templates.Field{Name: name, Value: value})
	return f
}

func dropField(list []templates.Field, name string) (kept []templates.Field) {
	for _, f := range list {
		if f.Name != name {
			kept = append(kept, f)
		}
	}
	return kept
}

// verifyAgain leads to the provider with the reason kept, and editable.
func (s *server) verifyAgain(d deed, id uuid.UUID, reason string) templates.Form {
	return templates.Form{Action: s.links.verify(d, id), Button: text.Of("Verify again"), AsksReason: true, Reason: reason}
}
