package web

import (
	"encoding/csv"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
)

func TestWhatIsOnRecordHasWords(t *testing.T) {
	for _, action := range auditActions {
		if auditWord(action).String() == action {
			t.Errorf("the action %s is said in no words", action)
		}
	}
	for _, status := range run.RunStatuses() {
		if kind := "run." + string(status); eventWord(kind).String() == kind {
			t.Errorf("the Event %s is said in no words", kind)
		}
	}
	if got := eventWord("run.<b>").String() + actorWord("<i>", "x\u202ey").String(); got != "run.<b><i> x�y" {
		t.Errorf("what nobody knows is said as %q", got)
	}
}

// In another language a page says what is on record in its words, and has the stable ones beside them; exports have
// those alone.
func TestRecordIsSaidInTheReadersLanguage(t *testing.T) {
	o := newOperator(t, policy.Owner, "ops")
	o.cookies = nil
	o.post(o.path(retrying), o.form(o.failed)).says(t, http.StatusForbidden)
	o.post("/schedules/ops/nightly/pause", o.holds("reason", "INC-7")).says(t, http.StatusSeeOther)
	read := func(target string) string {
		return get(t, o.handler(), target, "Accept", "text/html", "Accept-Language", "zh-CN").body
	}
	wants := map[string][]string{
		"/runs/" + o.failed.String(): {`<span>已创建<code class="sub">run.created</code></span>`, `<span>调度器 replica-1</span>`, `执行器 worker-1`},
		"/audit":                     {`重试 <code class="sub nowrap">run.retry</code>`, `暂停 <code class="sub nowrap">trigger.pause</code>`, `title="step_up_required">`},
	}
	for target, list := range wants {
		for _, want := range list {
			if body := read(target); !strings.Contains(body, want) {
				t.Errorf("GET %s in Chinese does not have %s:\n%s", target, want, body)
			}
		}
	}
	rows, err := csv.NewReader(strings.NewReader(read("/audit.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := slices.Index(rows[0], "trigger")
	if column < 0 || rows[1][column] != "nightly" || rows[2][column] != "" || !slices.Contains(rows[1], "trigger.pause") {
		t.Errorf("the audit's CSV is:\n%s", rows)
	}
}
