package catalog

import (
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/qinglong/console/internal/cron"
)

// MaxManifestBytes is the largest manifest that is read.
const MaxManifestBytes = 4 << 20

// DefaultTimeout is the timeout of a Task that names none.
const DefaultTimeout = time.Hour

// States of a Project as a manifest may write them.
const (
	StateActive   = "active"
	StateArchived = "archived"
)

// A Manifest is a set of definitions to publish. What it omits is left alone.
type Manifest struct {
	File     string // as mistakes name it
	Projects []Project
}

// A Position is where in a manifest a definition stands.
type Position struct {
	Line  int    // from 1
	Field string // such as projects[0].tasks[2]
}

// A Project is the boundary of authorization.
type Project struct {
	ID    string
	Name  string
	State string // StateActive, StateArchived, or empty: as it is, and active if new
	Tasks []Task
	At    Position
}

// A Task is what to execute.
type Task struct {
	ID               string
	Name             string
	Enabled          bool
	Command          []string          // program and arguments; never a shell line
	Env              map[string]string // literals, and references qlsecret:v1:<name>
	WorkingDirectory string            // absolute and clean, or empty
	Timeout          time.Duration     // whole seconds, 1 s to 7 days
	Placement        Placement
	Runbook          string // https URL template, or empty
	Logs             string // https URL template, or empty
	Retry            Retry
	Triggers         []Trigger
	At               Position
}

// Placement says where a Task may run.
type Placement struct {
	Requires []string // labels a worker must have, sorted
}

// Retry is what the Task's author says about running it a second time.
type Retry struct {
	Safe string // yes, no or ask
	Note string
}

// A Trigger says when to execute its Task.
type Trigger struct {
	ID       string
	Enabled  bool
	Cron     string // canonical
	Written  string // as the operator wrote it
	Timezone string // IANA name
	Misfire  string // skip or fire_once
	At       Position
}

// Misfire policies: what happens to an occurrence that nobody admitted in time.
// A Trigger that names none skips, as cron itself does; the skip is recorded.
const (
	MisfireSkip     = "skip"
	MisfireFireOnce = "fire_once"
)

// Read reads a manifest. The error, if what was read is at fault, is of type
// [Mistakes] and holds every mistake found; file is the name they carry.
func Read(file string, from io.Reader) (Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxManifestBytes+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest %s: %w", file, err)
	}
	r := &reader{file: file}
	root := r.parse(data)
	if root == nil {
		return Manifest{}, r.mistakes.err()
	}
	m := Manifest{File: file, Projects: r.projects(root)}
	if err := r.mistakes.err(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func (r *reader) projects(root *yaml.Node) []Project {
	o := r.object(root, "", "projects")
	if _, found := o.fields["projects"]; !found && o.node != nil {
		o.mistake("projects", "is required: the list of projects to publish")
		return nil
	}
	var projects []Project
	ids := map[string]int{}
	for _, it := range o.list("projects") {
		p := r.project(it)
		r.once(ids, it, p.ID)
		projects = append(projects, p)
	}
	return projects
}

func (r *reader) project(it item) Project {
	o := r.object(it.node, it.path, "id", "name", "state", "tasks")
	p := Project{
		ID:    o.required("id", validID),
		Name:  o.required("name", validName),
		State: o.choice("state", "", StateActive, StateArchived),
		At:    it.at(),
	}
	tasks, triggers := map[string]int{}, map[string]int{}
	for _, it := range o.list("tasks") {
		t := r.task(it, triggers)
		r.once(tasks, it, t.ID)
		p.Tasks = append(p.Tasks, t)
	}
	return p
}

// task reads one Task; triggers are the ids of the Project's Triggers so far.
func (r *reader) task(it item, triggers map[string]int) Task {
	o := r.object(it.node, it.path, "id", "name", "enabled", "command", "env", "workingDirectory",
		"timeout", "placement", "runbook", "logs", "retry", "triggers")
	t := Task{
		ID:               o.required("id", validID),
		Name:             o.required("name", validName),
		Enabled:          o.flag("enabled", true),
		Command:          r.command(o),
		Env:              r.env(o),
		WorkingDirectory: o.optional("workingDirectory", "", validDirectory),
		Timeout:          o.timeout("timeout", DefaultTimeout),
		Placement:        r.placement(o),
		Runbook:          o.optional("runbook", "", validURLTemplate),
		Logs:             o.optional("logs", "", validURLTemplate),
		Retry:            r.retry(o),
		At:               it.at(),
	}
	if err := validSize(t.Command, t.Env); err != nil {
		o.mistake("command", err.Error())
	}
	for _, it := range o.list("triggers") {
		trigger := r.trigger(it)
		r.once(triggers, it, trigger.ID)
		t.Triggers = append(t.Triggers, trigger)
	}
	return t
}

func (r *reader) command(o object) []string {
	if _, found := o.fields["command"]; !found && o.node != nil {
		o.mistake("command", "is required: the program and its arguments, as a list")
		return nil
	}
	var command []string
	for _, it := range o.list("command") {
		arg, ok := r.literal(it.node, it.path)
		if ok {
			r.check(it.node, it.path, validArgument(command, arg))
		}
		command = append(command, arg)
	}
	if n := o.fields["command"].value; n != nil && n.Kind == yaml.SequenceNode {
		r.check(n, o.at("command"), validCommand(command))
	}
	return command
}

func (r *reader) env(o object) map[string]string {
	n := o.fields["env"].value
	if n == nil {
		return nil
	}
	env := map[string]string{}
	entries := r.entries(n, o.at("env"))
	if len(entries) > maxEnv {
		r.mistake(n, o.at("env"), fmt.Sprintf("has %d variables; at most %d are allowed", len(entries), maxEnv))
	}
	for _, e := range entries {
		if err := validEnvName(e.key); err != nil {
			r.mistake(e.node, e.path, err.Error())
			continue
		}
		if value, ok := r.literal(e.value, e.path); ok {
			r.check(e.value, e.path, validEnvValue(e.key, value))
			env[e.key] = value
		}
	}
	return env
}

func (r *reader) placement(o object) Placement {
	n := o.fields["placement"].value
	if n == nil {
		return Placement{}
	}
	var labels []string
	seen := map[string]int{}
	for _, it := range r.object(n, o.at("placement"), "requires").list("requires") {
		label := r.text(it.node, it.path, validLabel)
		r.once(seen, it, label)
		labels = append(labels, label)
	}
	if len(labels) > maxLabels {
		r.mistake(n, o.at("placement")+".requires", fmt.Sprintf("has %d labels; at most %d are allowed", len(labels), maxLabels))
	}
	return Placement{Requires: sorted(labels)}
}

func (r *reader) retry(o object) Retry {
	n := o.fields["retry"].value
	if n == nil {
		return Retry{Safe: "ask"}
	}
	retry := r.object(n, o.at("retry"), "safe", "note")
	return Retry{
		Safe: retry.choice("safe", "ask", "yes", "no", "ask"),
		Note: retry.optional("note", "", validNote),
	}
}

func (r *reader) trigger(it item) Trigger {
	o := r.object(it.node, it.path, "id", "enabled", "cron", "timezone", "misfire")
	t := Trigger{
		ID:       o.required("id", validID),
		Enabled:  o.flag("enabled", true),
		Written:  strings.TrimSpace(o.required("cron", plainText)),
		Timezone: o.required("timezone", plainText),
		Misfire:  o.choice("misfire", MisfireSkip, MisfireSkip, MisfireFireOnce),
		At:       it.at(),
	}
	if o.fields["cron"].isText() && o.fields["timezone"].isText() {
		t.Cron = o.canonicalCron(t.Written, t.Timezone)
	}
	return t
}

// canonicalCron parses an expression in a zone and reports what is wrong with
// each of them.
func (o object) canonicalCron(expr, zone string) string {
	if _, err := cron.Parse("0 0 * * *", zone); err != nil {
		o.mistake("timezone", strings.TrimPrefix(err.Error(), "timezone: "))
		zone = "UTC"
	}
	schedule, err := cron.Parse(expr, zone)
	if err != nil {
		o.mistake("cron", err.Error())
		return ""
	}
	return schedule.Canonical()
}
