package catalog

import (
	"fmt"
	"maps"
	"slices"
)

// state is what the database has of one Project, read in one snapshot.
type state struct {
	exists   bool
	name     string
	status   string
	tasks    map[string]taskHead
	triggers map[string]triggerHead
	seenMS   int64 // the database clock of the snapshot
}

// sealed is content as it is stored, with its digest.
type sealed struct {
	content string
	digest  string
}

type taskHead struct {
	sealed
	revision int64
	enabled  bool
}

type triggerHead struct {
	sealed
	revision int64
	enabled  bool
	taskID   string
	schedule scheduleRow
}

type scheduleRow struct {
	enabled  bool
	baseAtMS int64
	cursorMS *int64
	paused   string // why somebody holds it back; "" if nobody does
}

// publication is everything that publishing one Project writes.
type publication struct {
	id       string
	isNew    bool
	name     string
	status   string
	fenced   bool   // name or status changed, which every policy fence must notice
	turn     string // "archived" or "unarchived" if this publication does that
	tasks    []taskRevision
	triggers []triggerRevision
	resets   []reset
	change   ProjectChange
}

type taskRevision struct {
	sealed
	pin       TaskPin
	execution sealed
}

type triggerRevision struct {
	sealed
	id       string
	revision int64
}

// A reset rewrites a Schedule: no cursor, no claim, a new base. No decision
// made from the row as it was can commit after it.
type reset struct {
	trigger  string
	revision int64
	enabled  bool
	before   *passedOver // nil if nothing was expected of the Schedule
	became   string      // what the instants before become: superseded, or paused if it was
	reason   string
}

// plan compares a Project of a manifest with what is there. It is pure; all
// cron arithmetic of publishing happens in it, before any lock is taken.
func plan(file string, p Project, from state) (publication, error) {
	pl := planner{
		from:    from,
		pins:    map[string]TaskPin{},
		enabled: map[string]bool{},
		planned: map[string]bool{},
		to:      publication{id: p.ID, isNew: !from.exists, name: p.Name, status: targetStatus(p, from)},
	}
	pl.to.change.Project = p.ID
	for id, head := range from.tasks {
		pl.enabled[id] = head.enabled
	}
	pl.project(p)
	for _, t := range p.Tasks {
		if err := pl.task(t); err != nil {
			return publication{}, err
		}
	}
	if err := pl.repin(); err != nil {
		return publication{}, err
	}
	pl.resetOthers()
	if err := archivedStays(file, from, pl.to); err != nil {
		return publication{}, err
	}
	return pl.to, nil
}

// targetStatus is what the manifest says, else what it is.
func targetStatus(p Project, from state) string {
	switch {
	case p.State != "":
		return p.State
	case from.exists:
		return from.status
	}
	return StateActive
}

// archivedStays refuses to change a Project that is and stays read-only.
func archivedStays(file string, from state, to publication) error {
	if from.status != StateArchived || to.status != StateArchived {
		return nil
	}
	var mistakes Mistakes
	for _, c := range to.change.Changes {
		if c.At.Line > 0 { // not what merely follows from another change
			mistakes = append(mistakes, Mistake{File: file, Line: c.At.Line, Field: c.At.Field,
				Reason: fmt.Sprintf("changes the Project %s, which is archived: write state: active to un-archive it", to.id)})
		}
	}
	return mistakes.err()
}

type planner struct {
	from    state
	to      publication
	pins    map[string]TaskPin // of the manifest's Tasks, as they will be
	enabled map[string]bool    // Tasks, as they will be
	planned map[string]bool    // Triggers of the manifest
}

func (pl *planner) note(c Change) { pl.to.change.Changes = append(pl.to.change.Changes, c) }

func (pl *planner) project(p Project) {
	c := Change{Verb: Changed, Kind: "project", ID: p.ID, At: p.At}
	if pl.to.isNew {
		c.Verb = Added
		pl.note(c)
		return
	}
	c.Details = compareText(nil, "name", pl.from.name, pl.to.name)
	c.Details = compareWord(c.Details, "state", pl.from.status, pl.to.status)
	if len(c.Details) > 0 {
		pl.to.fenced = true
		pl.note(c)
	}
	pl.to.turn = turn(pl.from.status, pl.to.status)
}

// turn is the word of the account for a change of status, or "".
func turn(from, to string) string {
	switch {
	case from == to:
		return ""
	case to == StateArchived:
		return "archived"
	}
	return "unarchived"
}

func (pl *planner) task(t Task) error {
	content := taskContent(pl.to.id, t)
	now, err := seal(DomainTask, content)
	if err != nil {
		return err
	}
	head := pl.from.tasks[t.ID]
	pl.pins[t.ID] = TaskPin{ID: t.ID, Revision: head.revision, Digest: head.digest}
	pl.enabled[t.ID] = t.Enabled
	if head.sealed != now {
		if err := pl.newTask(t, content, now, head); err != nil {
			return err
		}
	}
	for _, trigger := range t.Triggers {
		pl.planned[trigger.ID] = true
		content := triggerContent(pl.to.id, trigger, pl.pins[t.ID])
		if err := pl.trigger(content, trigger.At); err != nil {
			return err
		}
	}
	return nil
}

func (pl *planner) newTask(t Task, content TaskContent, now sealed, head taskHead) error {
	pin := TaskPin{ID: t.ID, Revision: head.revision + 1, Digest: now.digest}
	execution, err := seal(DomainExecution, compile(content, pin))
	if err != nil {
		return err
	}
	pl.pins[t.ID] = pin
	pl.to.tasks = append(pl.to.tasks, taskRevision{sealed: now, pin: pin, execution: execution})
	c := Change{Verb: Added, Kind: "task", ID: t.ID, Revision: pin.Revision, At: t.At}
	if head.revision > 0 {
		c.Verb, c.Details = Changed, compareTasks(head.content, content)
	}
	pl.note(c)
	return nil
}

// trigger plans a Trigger as content says, if that is not what is there.
func (pl *planner) trigger(content TriggerContent, at Position) error {
	now, err := seal(DomainTrigger, content)
	if err != nil {
		return err
	}
	head := pl.from.triggers[content.Trigger]
	if head.sealed == now {
		return nil
	}
	revision := head.revision + 1
	pl.to.triggers = append(pl.to.triggers, triggerRevision{sealed: now, id: content.Trigger, revision: revision})
	c := Change{Verb: Added, Kind: "trigger", ID: content.Trigger, Revision: revision, At: at}
	if head.revision > 0 {
		c.Verb, c.Details = Changed, compareTriggers(head.content, content)
	}
	pl.note(c)
	pl.reset(content.Trigger, revision, pl.runs(content.Enabled, content.Task.ID), fmt.Sprintf("revision %d was published", revision))
	return nil
}

// repin points the Triggers that the manifest omits, but whose Task it changes,
// at the Task's new revision: a Trigger never goes on running an older one.
func (pl *planner) repin() error {
	changed := map[string]bool{}
	for _, t := range pl.to.tasks {
		changed[t.pin.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(pl.from.triggers)) {
		head := pl.from.triggers[id]
		if pl.planned[id] || !changed[head.taskID] {
			continue
		}
		content, err := readTrigger(head)
		if err != nil {
			return fmt.Errorf("trigger %s of changed task %s: %w; publish it in the same manifest", id, head.taskID, err)
		}
		content.Task = pl.pins[head.taskID]
		if err := pl.trigger(content, Position{}); err != nil {
			return err
		}
	}
	return nil
}

// readTrigger reads content that a new revision is to be made from.
func readTrigger(head triggerHead) (TriggerContent, error) {
	if err := Verify(DomainTrigger, head.content, head.digest); err != nil {
		return TriggerContent{}, err
	}
	return ParseTrigger(head.content)
}

// resetOthers rewrites the Schedules of unchanged Triggers when the Project is
// archived or un-archived.
func (pl *planner) resetOthers() {
	if pl.to.isNew || pl.to.status == pl.from.status {
		return
	}
	rewritten := map[string]bool{}
	for _, r := range pl.to.resets {
		rewritten[r.trigger] = true
	}
	for _, id := range slices.Sorted(maps.Keys(pl.from.triggers)) {
		if head := pl.from.triggers[id]; !rewritten[id] {
			pl.reset(id, head.revision, pl.runs(head.enabled, head.taskID), "the Project was "+pl.to.status)
		}
	}
}

// runs reports whether a Trigger's Schedule expects anything.
func (pl *planner) runs(enabled bool, task string) bool {
	return enabled && pl.enabled[task] && pl.to.status == StateActive
}

// reset leaves a pause as it is: what is paused stays so, whatever is published.
func (pl *planner) reset(id string, revision int64, enabled bool, reason string) {
	head := pl.from.triggers[id]
	r := reset{trigger: id, revision: revision, enabled: enabled && head.schedule.paused == "", became: "superseded", reason: reason}
	if head.schedule.paused != "" {
		r.became, r.reason = "paused", PausedWords(head.schedule.paused, reason)
	}
	if head.schedule.enabled || head.schedule.paused != "" && pl.from.expects(head) {
		r.before = passOver(head, pl.from.seenMS)
	}
	pl.to.resets = append(pl.to.resets, r)
}

// expects reports whether head's Schedule would fire if nobody held it back.
func (s state) expects(head triggerHead) bool {
	return head.enabled && s.tasks[head.taskID].enabled && s.status == StateActive
}

func seal(domain Domain, v any) (sealed, error) {
	content, err := canonical(v)
	if err != nil {
		return sealed{}, err
	}
	return sealed{content: content, digest: Digest(domain, content)}, nil
}
