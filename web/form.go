package web

import (
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
var formFields = []string{"mutation", "status", "version", "plan", "newest", "asked", "sure", "reason"}

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
func (m managed) correct(f submitted) (correction, bool) {
	n, wrong := len([]rune(f.reason)), text.Text{}
	switch {
	case f.reason == "":
		wrong = m.say.noReason
	case n > runmgmt.MaxWords:
		wrong = text.Of("The reason has %s characters, at most %s are kept.", n, runmgmt.MaxWords)
	case f.unsure:
		wrong = text.Of("The second confirmation is missing: the Task’s author says that running it again is not safe.")
	}
	return correction{text.Join(text.Data(" "), wrong, m.say.notDone), f.reason}, !wrong.Empty()
}

// A correction is what a form is shown again with: what is wrong with it, and what was written.
type correction struct {
	wrong  text.Text
	reason string
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
	return http.StatusBadRequest
}

// resend is the form that was sent, for its sender to send again. It asks nothing of the database.
func (s *server) resend(c echo.Context) templates.Form {
	if c.Request().Method != http.MethodPost || c.Request().ParseForm() != nil {
		return templates.Form{}
	}
	id, err := wholeID(c.Param("id"))
	if err != nil {
		return templates.Form{}
	}
	for _, d := range []deed{retrying, stopping} {
		switch path := s.routeOf(c).path; path {
		case deedPath(d):
			return s.formOf(c, s.links.deed(d, id))
		case deedPath(d) + "/verify":
			return s.formOf(c, s.links.verify(d, id))
		}
	}
	return templates.Form{}
}

func deedPath(d deed) string { return "/runs/:id/" + d.path }

func (s *server) formOf(c echo.Context, action string) templates.Form {
	f := templates.Form{Action: action, Button: text.Of("Send again")}
	for _, name := range formFields {
		if values := c.Request().PostForm[name]; len(values) == 1 && strings.ToValidUTF8(values[0], "") == values[0] {
			f.Fields = append(f.Fields, templates.Field{Name: name, Value: values[0]})
		}
	}
	return f
}

// set replaces one field.
func set(f templates.Form, name, value string) templates.Form {
	var fields []templates.Field
	for _, x := range f.Fields {
		if x.Name != name {
			fields = append(fields, x)
		}
	}
	f.Fields = append(fields, templates.Field{Name: name, Value: value})
	return f
}

// verifyAgain leads to the provider with the reason kept, and editable.
func (s *server) verifyAgain(d deed, id uuid.UUID, reason string) templates.Form {
	return templates.Form{Action: s.links.verify(d, id), Button: text.Of("Verify again"), AsksReason: true, Reason: reason}
}
