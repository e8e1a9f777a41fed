package web

import (
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
	runtest.PublishMany(t, o.Database, search.Most+1)
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
