package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The golden content is written by hand from RFC 8785; the digests were made
// from it with Python's hashlib, so that neither our code nor its library is its own judge.
const (
	goldenTask = `{"command":["/usr/local/bin/report","--day","ä<&>\n"],"enabled":true,` +
		`"env":{"REGION":"eu","TOKEN":"qlsecret:v1:report-token"},"id":"nightly-report","kind":"task",` +
		`"logs":"https://logs.example/?run={run}&attempt={attempt}","name":"Nightly report",` +
		`"placement":{"requires":["arm64","linux"]},"project":"ops","retry":{"note":"sends an e-mail","safe":"ask"},` +
		`"runbook":"https://wiki.example/r","timeoutMs":1800000,"workingDirectory":"/srv/report"}`
	goldenTaskDigest = "e9cb0f930068eb347d33b4aa6022ff48ddb0606a5a76a7c173da2132d0822d89"

	goldenExecution = `{"command":["/usr/local/bin/report","--day","ä<&>\n"],` +
		`"env":{"REGION":"eu","TOKEN":"qlsecret:v1:report-token"},"executor":"remote_worker","kind":"execution",` +
		`"placement":{"requires":["arm64","linux"]},"project":"ops",` +
		`"task":{"digest":"` + goldenTaskDigest + `","id":"nightly-report","revision":7},` +
		`"timeoutMs":1800000,"workingDirectory":"/srv/report"}`
	goldenExecutionDigest = "8818eb463dfbde4d9ef6cbb352c06d85f428b6662c0a8b16451e39e9643e208b"

	goldenTrigger = `{"cron":"30 2 * * *","enabled":true,"kind":"qinglong/cron@v1","misfire":"fire_once","project":"ops",` +
		`"task":{"digest":"` + goldenTaskDigest + `","id":"nightly-report","revision":7},` +
		`"timezone":"Europe/Berlin","trigger":"nightly","written":"30 2 * * *"}`
	goldenTriggerDigest = "cddf8ac0574448a28559f94f755f7d807591a7414bd362e0b6d930e543f155b9"

	goldenSmall       = `{"command":["x"],"enabled":false,"id":"t","kind":"task","name":"T","project":"p","retry":{"safe":"ask"},"timeoutMs":3600000}`
	goldenSmallDigest = "7b0b1e6b93da80b07f52ae3f91de7eac5a3755145862d9c7ca640cf9a54dfb56"
)

const goldenManifest = `projects:
- id: ops
  name: Operations
  tasks:
  - id: nightly-report
    name: Nightly report
    command: [/usr/local/bin/report, --day, "ä<&>\n"]
    env: { TOKEN: "qlsecret:v1:report-token", REGION: eu }
    workingDirectory: /srv/report
    timeout: 30m
    placement: { requires: [linux, arm64] }
    runbook: https://wiki.example/r
    logs: https://logs.example/?run={run}&attempt={attempt}
    retry: { note: sends an e-mail }
    triggers:
    - { id: nightly, cron: 30 2 * * *, timezone: Europe/Berlin, misfire: fire_once }
- id: p
  name: P
  tasks: [{ id: t, name: T, enabled: false, command: [x] }]
`

func TestGoldenContent(t *testing.T) {
	m, err := read(goldenManifest)
	if err != nil {
		t.Fatal(err)
	}
	report, small := m.Projects[0].Tasks[0], m.Projects[1].Tasks[0]
	pin := TaskPin{ID: "nightly-report", Revision: 7, Digest: goldenTaskDigest}
	tests := []struct {
		name    string
		content any
		domain  Domain
		want    string
		digest  string
	}{
		{"task", taskContent("ops", report), DomainTask, goldenTask, goldenTaskDigest},
		{"smallest task", taskContent("p", small), DomainTask, goldenSmall, goldenSmallDigest},
		{"execution", compile(taskContent("ops", report), pin), DomainExecution, goldenExecution, goldenExecutionDigest},
		{"trigger", triggerContent("ops", report.Triggers[0], pin), DomainTrigger, goldenTrigger, goldenTriggerDigest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := canonical(tt.content)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("canonical() (-want +got):\n%s", diff)
			}
			if got := Digest(tt.domain, tt.want); got != tt.digest {
				t.Errorf("Digest(%s) = %s, want %s", tt.domain, got, tt.digest)
			}
		})
	}
	if got, want := pin.ExecutionID(), "qltd:v1:7:"+goldenTaskDigest; got != want {
		t.Errorf("ExecutionID() = %s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	tests := []struct {
		name            string
		domain          Domain
		content, digest string
		want            error
	}{
		{"intact", DomainTask, goldenTask, goldenTaskDigest, nil},
		{"a byte changed", DomainTask, strings.Replace(goldenTask, "eu", "us", 1), goldenTaskDigest, ErrDigest},
		{"a blank added", DomainTask, goldenTask + " ", goldenTaskDigest, ErrDigest},
		{"another domain", DomainTrigger, goldenTask, goldenTaskDigest, ErrDigest},
		{"digest in capitals", DomainTask, goldenTask, strings.ToUpper(goldenTaskDigest), ErrDigest},
		{"no digest", DomainTask, goldenTask, "", ErrDigest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Verify(tt.domain, tt.content, tt.digest); !errors.Is(got, tt.want) {
				t.Errorf("Verify(%s) = %v, want %v", tt.domain, got, tt.want)
			}
		})
	}
}

func TestParseContent(t *testing.T) {
	parseTask := func(s string) error { _, err := ParseTask(s); return err }
	parseExecution := func(s string) error { _, err := ParseExecution(s); return err }
	parseTrigger := func(s string) error { _, err := ParseTrigger(s); return err }
	tests := []struct {
		name    string
		parse   func(string) error
		content string
		ok      bool
	}{
		{"task", parseTask, goldenTask, true},
		{"execution", parseExecution, goldenExecution, true},
		{"trigger", parseTrigger, goldenTrigger, true},
		{"task as execution", parseExecution, goldenTask, false},
		{"execution as task", parseTask, goldenExecution, false},
		{"trigger as task", parseTask, goldenTrigger, false},
		{"field of a newer console", parseTrigger, strings.Replace(goldenTrigger, `"enabled":true`, `"enabled":true,"calendar":"x"`, 1), false},
		{"another kind of trigger", parseTrigger, strings.Replace(goldenTrigger, "cron@v1", "cron@v2", 1), false},
		{"another executor", parseExecution, strings.Replace(goldenExecution, "remote_worker", "local", 1), false},
		{"execution without command", parseExecution, `{"kind":"execution","executor":"remote_worker","command":[],"timeoutMs":1}`, false},
		{"execution without timeout", parseExecution, `{"kind":"execution","executor":"remote_worker","command":["x"]}`, false},
		{"something behind it", parseTask, goldenTask + goldenTask, false},
		{"no JSON", parseTask, "hunter2", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.parse(tt.content)
			if (err == nil) != tt.ok {
				t.Errorf("parse() = %v, want ok %t", err, tt.ok)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("parse() = %v, which repeats the content", err)
			}
		})
	}
}
