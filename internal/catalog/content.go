package catalog

import (
	"fmt"
	"time"

	"github.com/qinglong/console/internal/cron"
)

// TaskContent is the stored content of a Task revision.
type TaskContent struct {
	Kind             string            `json:"kind"` // always "task"
	Project          string            `json:"project"`
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Enabled          bool              `json:"enabled"`
	Command          []string          `json:"command"`
	Env              map[string]string `json:"env,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	TimeoutMs        int64             `json:"timeoutMs"`
	Placement        *PlacementContent `json:"placement,omitempty"`
	Runbook          string            `json:"runbook,omitempty"`
	Logs             string            `json:"logs,omitempty"`
	Retry            RetryContent      `json:"retry"`
}

// PlacementContent is the part of a content that says where a Task may run.
type PlacementContent struct {
	Requires []string `json:"requires"` // sorted, at least one
}

// RetryContent is what the Task's author says about running it again.
type RetryContent struct {
	Safe string `json:"safe"` // yes, no or ask
	Note string `json:"note,omitempty"`
}

// Unsafe reports whether the Task's author says that running it again is not safe.
func (r RetryContent) Unsafe() bool { return r.Safe == "no" }

// A TaskPin names one Task revision by number and digest.
type TaskPin struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	Digest   string `json:"digest"`
}

// ExecutionID returns the id of the execution compiled from the pinned revision.
func (p TaskPin) ExecutionID() string { return fmt.Sprintf("qltd:v1:%d:%s", p.Revision, p.Digest) }

// Execution is the stored content of an execution revision: the plan a worker
// carries out, compiled from one Task revision.
type Execution struct {
	Kind             string            `json:"kind"`     // always "execution"
	Executor         string            `json:"executor"` // always "remote_worker"
	Project          string            `json:"project"`
	Task             TaskPin           `json:"task"`
	Command          []string          `json:"command"`
	Env              map[string]string `json:"env,omitempty"` // literals and secret references
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	TimeoutMs        int64             `json:"timeoutMs"`
	Placement        *PlacementContent `json:"placement,omitempty"`
}

// Timeout returns how long one Attempt may run.
func (e Execution) Timeout() time.Duration { return time.Duration(e.TimeoutMs) * time.Millisecond }

// TriggerContent is the stored content of a Trigger revision.
type TriggerContent struct {
	Kind     string  `json:"kind"` // always KindCron
	Project  string  `json:"project"`
	Trigger  string  `json:"trigger"`
	Enabled  bool    `json:"enabled"`
	Cron     string  `json:"cron"`    // canonical
	Written  string  `json:"written"` // as the operator wrote it
	Timezone string  `json:"timezone"`
	Misfire  string  `json:"misfire"` // skip or fire_once
	Task     TaskPin `json:"task"`
}

// The kinds of content.
const (
	kindTask      = "task"
	kindExecution = "execution"
	KindCron      = "qinglong/cron@v1"

	executorRemoteWorker = "remote_worker"
)

// taskContent returns the content that publishing t in project stores.
func taskContent(project string, t Task) TaskContent {
	c := TaskContent{
		Kind: kindTask, Project: project, ID: t.ID, Name: t.Name, Enabled: t.Enabled,
		Command: t.Command, Env: t.Env, WorkingDirectory: t.WorkingDirectory,
		TimeoutMs: t.Timeout.Milliseconds(), Runbook: t.Runbook, Logs: t.Logs,
		Retry: RetryContent(t.Retry),
	}
	if len(t.Placement.Requires) > 0 {
		c.Placement = &PlacementContent{Requires: t.Placement.Requires}
	}
	return c
}

// compile returns the execution plan of a Task revision.
func compile(c TaskContent, pin TaskPin) Execution {
	return Execution{
		Kind: kindExecution, Executor: executorRemoteWorker, Project: c.Project, Task: pin,
		Command: c.Command, Env: c.Env, WorkingDirectory: c.WorkingDirectory,
		TimeoutMs: c.TimeoutMs, Placement: c.Placement,
	}
}

// triggerContent returns the content that publishing t in project stores.
func triggerContent(project string, t Trigger, pin TaskPin) TriggerContent {
	return TriggerContent{
		Kind: KindCron, Project: project, Trigger: t.ID, Enabled: t.Enabled,
		Cron: t.Cron, Written: t.Written, Timezone: t.Timezone, Misfire: t.Misfire, Task: pin,
	}
}

// ParseTask decodes the content of a Task revision. It does not check the digest.
func ParseTask(content string) (TaskContent, error) {
	var c TaskContent
	if err := decode(content, &c); err != nil {
		return TaskContent{}, err
	}
	if c.Kind != kindTask {
		return TaskContent{}, fmt.Errorf("content is of kind %q, not %q", c.Kind, kindTask)
	}
	return c, nil
}

// ParseExecution decodes the content of an execution revision. It does not
// check the digest.
func ParseExecution(content string) (Execution, error) {
	var e Execution
	if err := decode(content, &e); err != nil {
		return Execution{}, err
	}
	if e.Kind != kindExecution || e.Executor != executorRemoteWorker || len(e.Command) == 0 || e.TimeoutMs <= 0 {
		return Execution{}, fmt.Errorf("content of kind %q is no execution for %s", e.Kind, executorRemoteWorker)
	}
	return e, nil
}

// ParseTrigger decodes the content of a Trigger revision. It does not check the
// digest.
func ParseTrigger(content string) (TriggerContent, error) {
	var c TriggerContent
	if err := decode(content, &c); err != nil {
		return TriggerContent{}, err
	}
	if c.Kind != KindCron {
		return TriggerContent{}, fmt.Errorf("content is of kind %q, not %q", c.Kind, KindCron)
	}
	return c, nil
}

// ParseSchedule decodes the content of a Trigger revision and what it says of time. A time that cannot be understood
// leaves the content beside the error.
func ParseSchedule(content string) (TriggerContent, cron.Schedule, error) {
	t, err := ParseTrigger(content)
	if err != nil {
		return TriggerContent{}, cron.Schedule{}, err
	}
	schedule, err := cron.Parse(t.Cron, t.Timezone)
	return t, schedule, err
}
