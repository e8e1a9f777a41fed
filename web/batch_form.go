package web

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// choice is a form that names Runs.
type choice struct {
	deed   deed
	runs   []runmgmt.Chosen
	unsure bool   // a Run that is not safe to run again is among them, and the second confirmation is not
	only   string // those at these places of the batch
	reason string
}

func readChoice(c echo.Context) (f choice, err error) {
	one, err := readForm(c)
	if err != nil {
		return f, err
	}
	form := c.Request().PostForm
	f.reason, f.only = one.reason, form.Get("only")
	f.unsure = len(form["unsafe"]) > 0 && form.Get("sure") == ""
	if name := form.Get("action"); name != "" {
		var ok bool
		if f.deed, ok = deedOf(name); !ok {
			return f, badForm(text.Of("The form asks for what nobody can do here."))
		}
	}
	for _, name := range choiceFields {
		for _, value := range form[name] {
			one, ok := parseChosen(value)
			if !ok {
				return f, badForm(text.Of("The form names a Run by what is no id."))
			}
			f.runs = append(f.runs, one)
		}
	}
	return f, nil
}

// chosenValue is a Run as a form names it: its id and, if it has been retried, that of the newest retry that was shown.
func chosenValue(id uuid.UUID, newest *uuid.UUID) string {
	if newest == nil {
		return id.String()
	}
	return id.String() + "/" + newest.String()
}

func parseChosen(value string) (one runmgmt.Chosen, ok bool) {
	id, newest, retried := strings.Cut(value, "/")
	run, err := wholeID(id)
	if err != nil {
		return one, false
	}
	one.Run = run
	if !retried {
		return one, true
	}
	other, err := wholeID(newest)
	one.NewestRetry = &other
	return one, err == nil
}

func (f choice) ids() (list []uuid.UUID) {
	for _, one := range f.runs {
		list = append(list, one.Run)
	}
	return list
}

// A subset is which Runs of a batch are chosen; nil is all of them.
type subset map[uuid.UUID]bool

func (x subset) has(id uuid.UUID) bool { return x == nil || x[id] }

func subsetOf(ids []uuid.UUID) subset {
	x := subset{}
	for _, id := range ids {
		x[id] = true
	}
	return x
}

// places spells x for a URL: the places in the batch, from 1 on. All of it needs no words.
func (x subset) places(members []runmgmt.BatchMember) string {
	var list []string
	for i, m := range members {
		if x.has(m.RunID) {
			list = append(list, strconv.Itoa(i+1))
		}
	}
	if len(list) == len(members) {
		return ""
	}
	return strings.Join(list, ",")
}

// parsePlaces reads what [subset.places] spelled.
func parsePlaces(spelled string, members []runmgmt.BatchMember) (subset, bool) {
	if spelled == "" {
		return nil, true
	}
	x := subset{}
	for part := range strings.SplitSeq(spelled, ",") {
		at, err := strconv.Atoi(part)
		if err != nil || at < 1 || at > len(members) {
			return nil, false
		}
		x[members[at-1].RunID] = true
	}
	return x, true
}

// verifyBatchAgain leads to the provider for a batch that is frozen already, with its reason.
func (s *server) verifyBatchAgain(id uuid.UUID, only string) templates.Form {
	f := templates.Form{Action: s.links.verifyBatch(id), Button: text.Of("Verify again")}
	if only != "" {
		f.Fields = []templates.Field{{Name: "only", Value: only}}
	}
	return f
}
