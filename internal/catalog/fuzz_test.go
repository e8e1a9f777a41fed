package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// canary stands for a secret: wherever in a manifest it gets to as a value, no
// mistake may repeat it.
const canary = "zq7Canary9hunter2"

// lineBreak is what YAML takes for one.
var lineBreak = regexp.MustCompile(`\r\n|[\n\r\x{85}\x{2028}\x{2029}]`)

func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add(goldenManifest)
	f.Add("projects:\n- id: &a p\n  name: *a\n  <<: *a\n---\n")
	f.Add("projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x, --token=" + canary + "], env: {TOKEN: " + canary + "}}]}]")
	f.Add("projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x], env: {PASSWORD: *" + canary + "}}]}]")
	f.Add("projects: [{id: p, name: P, tasks: [{id: t, name: T, command: [x], env: {PASSWORD: !!int " + canary + "}}]}]")
	f.Fuzz(func(t *testing.T, manifest string) {
		m, err := read(manifest)
		if err == nil {
			rereads(t, m)
			return
		}
		mistakes, ok := errors.AsType[Mistakes](err)
		if !ok || len(mistakes) == 0 {
			t.Fatalf("Read() = %T %v, want Mistakes", err, err)
		}
		lines := 1 + len(lineBreak.FindAllString(manifest, -1))
		for _, mistake := range mistakes {
			if mistake.Line < 1 || mistake.Line > lines || mistake.Reason == "" {
				t.Errorf("Read() reports %q in a manifest of %d lines", mistake, lines)
			}
			// A cron expression and a zone are no secrets: their mistakes quote them.
			schedule := strings.HasSuffix(mistake.Field, ".cron") || strings.HasSuffix(mistake.Field, ".timezone")
			if !schedule && strings.Contains(mistake.Reason, canary) {
				t.Errorf("Read() repeats a value: %v", mistake)
			}
		}
	})
}

// rereads checks that an accepted manifest, written out, is read as the same
// definitions, and that their stored content comes back as it was stored.
func rereads(t testing.TB, m Manifest) {
	t.Helper()
	again, err := read(asManifest(m))
	if err != nil {
		t.Fatalf("Read() of an accepted manifest = %v", err)
	}
	opts := cmp.Options{cmpopts.IgnoreTypes(Position{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(m, again, opts); diff != "" {
		t.Fatalf("Read() of what it returned (-want +got):\n%s", diff)
	}
	for _, p := range m.Projects {
		for _, task := range p.Tasks {
			contentReturns(t, p.ID, task)
		}
	}
}

func contentReturns(t testing.TB, project string, task Task) {
	t.Helper()
	content := taskContent(project, task)
	text, digest := mustSeal(t, DomainTask, content)
	back, err := ParseTask(text)
	if err != nil {
		t.Fatalf("ParseTask(%s) = %v", text, err)
	}
	diffContent(t, content, back)
	pin := TaskPin{ID: task.ID, Revision: 1 << 52, Digest: digest}
	execution := compile(content, pin)
	text, _ = mustSeal(t, DomainExecution, execution)
	gotExecution, err := ParseExecution(text)
	if err != nil {
		t.Fatalf("ParseExecution(%s) = %v", text, err)
	}
	diffContent(t, execution, gotExecution)
	for _, g := range task.Triggers {
		want := triggerContent(project, g, pin)
		text, _ := mustSeal(t, DomainTrigger, want)
		got, err := ParseTrigger(text)
		if err != nil {
			t.Fatalf("ParseTrigger(%s) = %v", text, err)
		}
		diffContent(t, want, got)
	}
}

func mustSeal(t testing.TB, domain Domain, v any) (text, digest string) {
	t.Helper()
	text, err := canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	digest = Digest(domain, text)
	if err := Verify(domain, text, digest); err != nil {
		t.Fatal(err)
	}
	return text, digest
}

func diffContent(t testing.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("content (-stored +read):\n%s", diff)
	}
}

// Any manifest within the rules is accepted and keeps its meaning.
func TestReadKeepsDefinitions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := Manifest{File: "m.yaml", Projects: []Project{{ID: "p", Name: "P"}}}
		for i := range rapid.IntRange(0, 3).Draw(rt, "tasks") {
			want.Projects[0].Tasks = append(want.Projects[0].Tasks, drawTask(rt, i))
		}
		m, err := read(asManifest(want))
		if err != nil {
			rt.Fatalf("Read() = %v", err)
		}
		rereads(t, m)
	})
}

func drawTask(t *rapid.T, i int) Task {
	text := rapid.StringMatching(`[a-zA-Zäöü世界 <>&"'{}:#*!-]{0,20}`)
	task := Task{
		ID:      fmt.Sprintf("t%d.%s", i, rapid.StringMatching(`[a-z0-9._-]{0,20}`).Draw(t, "id")),
		Name:    "N" + text.Draw(t, "name") + "e",
		Enabled: rapid.Bool().Draw(t, "enabled"),
		Command: append([]string{"x"}, rapid.SliceOfN(text, 0, 5).Draw(t, "args")...),
		Env:     rapid.MapOfN(rapid.StringMatching(`V[A-Z0-9_]{0,6}`), text, 0, 4).Draw(t, "env"),
		Timeout: time.Duration(rapid.IntRange(1, 604800).Draw(t, "seconds")) * time.Second,
		Placement: Placement{Requires: sorted(rapid.SliceOfNDistinct(
			rapid.StringMatching(`[a-z0-9][a-z0-9._=/-]{0,9}`), 0, 4, rapid.ID).Draw(t, "labels"))},
		Retry: Retry{Safe: rapid.SampledFrom([]string{"yes", "no", "ask"}).Draw(t, "safe"), Note: text.Draw(t, "note")},
	}
	for j := range rapid.IntRange(0, 2).Draw(t, "triggers") {
		task.Triggers = append(task.Triggers, Trigger{
			ID: fmt.Sprintf("g%d-%d", i, j), Enabled: rapid.Bool().Draw(t, "trigger enabled"),
			Written:  fmt.Sprintf("%d  %d * * *", rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(0, 23).Draw(t, "hour")),
			Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Asia/Kathmandu"}).Draw(t, "zone"),
			Misfire:  rapid.SampledFrom([]string{MisfireSkip, MisfireFireOnce}).Draw(t, "misfire"),
		})
	}
	return task
}

// Wherever a value stands, refusing it does not repeat it.
func TestReadNeverRepeatsValues(t *testing.T) {
	const value = "zq7Canary9" + "hunter2"
	for _, field := range []string{
		"id: %s", "name: {a: %s}", "enabled: %s", "command: [x, --password=%s]", "command: [sh, -c, 'TOKEN=%s x']", "command: %s",
		"env: {TOKEN: %s}", "env: {API_KEY: '%s'}", "env: {DSN: 'postgres://u:%s@h/d'}", "env: {A: qlsecret:v1:%s!}", "env: %s",
		"env: {TOKEN: [%s]}", "env: {TOKEN: *%s}", "env: {TOKEN: &%s x}", "env: {TOKEN: !%s x}", "env: {TOKEN: '%s}", "env: {TOKEN: \t- %s",
		"workingDirectory: %s", "timeout: %s", "placement: {requires: [%s/A]}", "runbook: https://u:%s@x/", "logs: http://x/%s",
		"retry: {safe: %s}", "retry: {note: \"%s\\e\"}", "triggers: [%s]", "triggers: [{id: g, misfire: %s}]",
	} {
		manifest := task(fmt.Sprintf(field, value) + ",")
		if _, err := read(manifest); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("Read(%s) = %v, want a refusal that does not repeat the value", field, err)
		}
	}
}
