package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run/runtest"
	"github.com/qinglong/console/internal/search"
)

// Of a text that names more than is looked for, a page says that some are missing, and what nobody would see it on is refused:
// an export, and a selection of all that match.
func TestTextThatNamesTooMuch(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	tasks := ""
	for i := range search.Most + 1 {
		tasks += fmt.Sprintf("{id: job-%02d, name: Job, command: [/bin/true], timeout: 1m, triggers: [{id: at-%02d, cron: \"0 3 * * *\", timezone: UTC}]}, ", i, i)
	}
	runtest.Publish(t, o.Database, "projects: [{id: ops, name: Operations, tasks: ["+strings.TrimSuffix(tasks, ", ")+"]}]")
	const missing, refused = "some that match are missing here", "some that match would be missing"
	for _, text := range []string{"job-", "job-0"} {
		tooMuch := text == "job-"
		for _, x := range []struct {
			target string
			status int
			says   string
		}{
			{"/runs?q=", http.StatusOK, missing}, {"/runs?group=task&q=", http.StatusOK, missing}, {"/schedules?q=", http.StatusOK, missing},
			{"/runs.json?q=", http.StatusOK, `"partial": true`}, {"/runs.json?group=task&q=", http.StatusOK, `"partial": true`}, {"/schedules.json?q=", http.StatusOK, `"partial": true`},
			{"/runs.csv?q=", http.StatusBadRequest, refused}, {"/runs.csv?group=task&q=", http.StatusBadRequest, refused}, {"/schedules.csv?q=", http.StatusBadRequest, refused},
			{selectPath + "?action=retry&project=ops&q=", http.StatusBadRequest, refused}, {selectPath + "?action=stop&project=ops&q=", http.StatusBadRequest, refused},
		} {
			got, want := o.get(x.target+text), http.StatusOK
			if tooMuch {
				want = x.status
			}
			if got.StatusCode != want || strings.Contains(got.body, x.says) != tooMuch {
				t.Errorf("GET %s%s = %d, want %d that says %q: %t\n%s", x.target, text, got.StatusCode, want, x.says, tooMuch, got.body)
			}
		}
	}
}
