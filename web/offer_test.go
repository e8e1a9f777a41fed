package web

import (
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

// offersOf are the ids that a page offers at one of its fields.
func offersOf(t *testing.T, page answered, field string) (ids []string) {
	t.Helper()
	_, list, ok := strings.Cut(page.body, `<datalist id="`+field+`-options">`)
	if !ok {
		t.Fatalf("there is nothing offered at %s", field)
	}
	list, _, _ = strings.Cut(list, "</datalist>")
	for _, part := range strings.Split(list, `<option value="`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, html.UnescapeString(id))
	}
	return ids
}

// The fields that want an id whole offer those of what their reader may see, of the Project that is chosen if one is, and not
// more than a few kilobytes of them.
func TestIDsAreOffered(t *testing.T) {
	w := newWorld(t)
	h, others := w.handler(t, ""), elsewhere(t, w.Database)
	tests := []struct {
		name, target    string
		tasks, triggers string
	}{
		{"of all", "/runs", "[digest report]", "[daily nightly nightly.json]"},
		{"of one Project", "/runs?project=growth", "[digest]", "[daily]"},
		{"of a Project that is not there", "/runs?project=nothing", "[]", "[]"},
		{"beside what is wrong", "/runs?since=someday", "[digest report]", "[daily nightly nightly.json]"},
		{"beside failures by Task", "/runs?group=task", "[digest report]", "[daily nightly nightly.json]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := get(t, h, tt.target)
			if tasks, triggers := fmt.Sprint(offersOf(t, page, "task")), fmt.Sprint(offersOf(t, page, "trigger")); tasks != tt.tasks || triggers != tt.triggers {
				t.Errorf("GET %s offers the Tasks %s and the Triggers %s, want %s and %s", tt.target, tasks, triggers, tt.tasks, tt.triggers)
			}
		})
	}
	for _, target := range []string{"/runs", "/runs?project=ops", "/runs?project=growth", "/runs?group=task", "/runs?since=someday"} {
		hasNot(t, "what another Project's viewer is offered at "+target, get(t, others, target), "report", "nightly", "in ops")
	}

	pgtest.Force(t, w.Super(t), `INSERT INTO ql3.triggers (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms)
		SELECT 'growth', 'many-' || lpad(n::text, 58, '0'), 1, 1, 1 FROM generate_series(1, 1000) n`)
	page := get(t, h, "/runs")
	_, list, _ := strings.Cut(page.body, `<datalist id="trigger-options">`)
	list, _, _ = strings.Cut(list, "</datalist>")
	if n := len(offersOf(t, page, "trigger")); n != offered || len(list) > 10_000 {
		t.Errorf("of a thousand Triggers %d are offered, in %d bytes, want %d in 10,000 at most", n, len(list), offered)
	}
}

// A filter by an id that nothing has for its reader says so, and leads to what is like it; of one that there is it says
// nothing of the kind.
func TestNoSuchID(t *testing.T) {
	w := newWorld(t)
	h, others := w.handler(t, ""), elsewhere(t, w.Database)
	tests := []struct {
		name, target string
		says         []string
	}{
		{"a part of a Task's id", "/runs?task=rep&status=queued", []string{"None of the Tasks that you may see here has the id &#34;rep&#34;.", `href="/runs?project=ops&amp;status=queued&amp;task=report"`}},
		{"a mistyped one", "/runs?task=reprot", []string{"Perhaps one of these was meant:", `href="/runs?project=ops&amp;task=report"`}},
		{"another case", "/runs?trigger=Nightly", []string{"None of the Triggers that", `href="/runs?project=ops&amp;trigger=nightly"`, `href="/runs?project=ops&amp;trigger=nightly.json"`}},
		{"nothing like it", "/runs?task=zzz", []string{"None of the Tasks that", "A part of a name goes into the first field."}},
		{"failures by Task", "/runs?task=rep&group=task", []string{"None of the Tasks that", `href="/runs?group=task&amp;project=ops&amp;task=report"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { has(t, "GET "+tt.target, get(t, h, tt.target), tt.says...) })
	}
	for _, target := range []string{"/runs?task=report&status=queued", "/runs?trigger=daily", "/runs?project=growth&task=digest&group=task", "/runs?q=zzz"} {
		page := get(t, h, target)
		hasNot(t, "a filter by what is there, "+target, page, "None of the")
		has(t, "a filter by what is there, "+target, page, `class="empty"`)
	}
	for _, target := range []string{"/runs?task=report", "/runs?task=rep", "/runs?trigger=nightly", "/runs?trigger=night&group=task", "/runs?project=ops&task=rep"} {
		page := get(t, others, target)
		has(t, "another Project's viewer of "+target, page, "None of the")
		hasNot(t, "another Project's viewer of "+target, page, "Perhaps", "nightly.json", "in ops")
	}
}
